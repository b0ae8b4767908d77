"""What becomes of programs: refused with a code, compiled, proven at their own sizes and at others, or at fault."""

from __future__ import annotations

import collections
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.programs.crate import Crate
from benchmarks.programs.making import Refusal, loaded, ported
from benchmarks.programs.strategy import Program
from torchport.errors import TorchportError
from torchport.porting.port import Port

OTHER_SIZES = ((2, 5), (4, 9), (1, 2), (1, 1))
"""Batch and length of the inputs that a port is checked on beside those that it was made from."""


@dataclass(frozen=True)
class Fault:
    """A promise that a program shows to be broken."""

    kind: str
    """`crash`, `compile`, `lint` or `wrong`."""
    message: str

    def is_like(self, other: Fault) -> bool:
        """Whether it is of the same kind: of crashes, by the same exception."""
        return self.kind == other.kind and (self.kind != "crash" or self._exception == other._exception)

    @property
    def _exception(self) -> str:
        return self.message.strip().splitlines()[-1].partition(":")[0]


@dataclass
class Judgement:
    made: int = 0
    compiled: int = 0
    tried: int = 0
    """How many were to be proven."""
    proven: int = 0
    elsewhere: int = 0
    """Proofs at other sizes than those that ports were made from."""
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    """By code; an operation that is not mapped counts by its name."""
    refused_elsewhere: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: dict[str, Fault] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    """One message for each code and operation."""

    def __iadd__(self, other: Judgement) -> Judgement:
        for name in ("made", "compiled", "tried", "proven", "elsewhere"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refused += other.refused
        self.refused_elsewhere += other.refused_elsewhere
        self.faults |= other.faults
        self.messages = {**other.messages, **self.messages}
        return self

    def refuse(self, what: str, message: str) -> None:
        self.refused[what] += 1
        self.messages.setdefault(what, message)


def judged(programs: Mapping[str, Program], folder: Path, *, proofs: int) -> Judgement:
    """Ports all programs, compiles them in one crate, and proves some of them."""
    found = Judgement(made=len(programs))
    ports: dict[str, Port] = {}
    for name, program in programs.items():
        try:
            port = ported(program, name, folder)
        except Exception:
            found.faults[name] = Fault("crash", traceback.format_exc(limit=-6))
            continue
        if isinstance(port, Refusal):
            found.refuse(port.code, port.message)
        else:
            ports[name] = port
    crate = Crate(folder / "crate", ports)
    for name, (kind, text) in crate.faults().items():
        # What only a missing operation would read is computed all the same, so that it can be compared.
        if kind == "compile" or not ports[name].artifact.todos:
            found.faults[name] = Fault(kind, text)
    found.compiled = len(ports) - sum(fault.kind == "compile" for fault in found.faults.values())
    crate = crate.without(set(found.faults))
    whole = [name for name, port in crate.ports.items() if not port.artifact.todos]
    for name in crate.ports.keys() - set(whole):
        for todo in crate.ports[name].artifact.todos[:1]:
            found.refuse(todo.op, todo.reason)
    crate = Crate(crate.folder, {name: crate.ports[name] for name in whole[:proofs]})
    found.tried = len(crate.ports)
    if crate.ports:
        crate.build()
        for name, port in crate.ports.items():
            _prove(name, port, folder, found)
    return found


def _prove(name: str, port: Port, folder: Path, found: Judgement) -> None:
    """Checks a port on the inputs that it was made from, and on others."""
    module = loaded(folder / "scripts" / f"{name}.py")
    try:
        _judge(port, None, found)
        found.proven += 1
        for batch, length in OTHER_SIZES:
            model, inputs = module.case(batch, length)
            port.model = model
            try:
                model(*inputs)
            except Exception:
                continue  # PyTorch itself has no answer at this size.
            try:
                _judge(port, inputs, found, f"batch {batch}, length {length}: ")
                found.elsewhere += 1
            except TorchportError as error:
                if error.code != "TP0208":
                    # A size that the port took and PyTorch computes is a promise, whatever the refusal says.
                    raise _Wrong(f"batch {batch}, length {length}: refused: {error}") from error
                found.refused_elsewhere[error.code] += 1
                found.messages.setdefault(error.code, f"{name}: {error}")
    except _Wrong as wrong:
        found.faults[name] = Fault("wrong", str(wrong))
    except Exception:
        found.faults[name] = Fault("crash", traceback.format_exc(limit=-6))


class _Wrong(Exception):
    """A port that computes something else, or stops."""


def _judge(port: Port, inputs: tuple[object, ...] | None, found: Judgement, place: str = "") -> None:
    report = port.check(explain=False) if inputs is None else port.check(inputs, explain=False)
    if not report.passed:
        raise _Wrong(
            f"{place}{report.status}: {report.stopped or ''} {report.first_divergence} {report.todos}"
        )
