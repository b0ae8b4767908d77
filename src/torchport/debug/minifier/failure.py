"""How a graph fails, and when two failures are the same, so that a reduction never ends at another fault."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from torchport.debug.constraints.base import Violation

Kind = Literal["exception", "crash", "hang", "wrong value", "wrong gradient", "constraint"]
Measure = Literal["absolute", "relative", "exact", "missing", "shape", "dtype", "not finite"]


@dataclass(frozen=True)
class Mismatch:
    """A value that is wrong: which, by what it is told, and how far it and eager PyTorch are from the reference."""

    name: str
    """`output 0`, or the name of the input whose gradient it is."""
    measure: Measure
    error: float
    noise: float
    ratio: float
    """The share of the limit of torchport's rule that the error takes up."""

    @property
    def limit(self) -> float:
        """An error between what eager PyTorch has and what was found, for a script to tell the two apart."""
        return math.sqrt(self.error) * math.sqrt(max(self.noise, self.error * 1e-4))


@dataclass(frozen=True)
class Failure:
    kind: Kind
    signature: str
    """What two failures of a kind have in common if they are the same: type and message of an exception without its
    numbers, the signal of a crash, the constraint and the operation that breaks it, the sort of wrong values."""
    message: str
    nodes: tuple[str, ...] = ()
    """The nodes that it names, the likeliest first."""
    mismatch: Mismatch | None = None
    violation: Violation | None = None

    def is_kept_by(self, other: Failure | None) -> bool:
        """Whether a smaller case fails in the same way.

        A wrong value must stay clear of what honest arithmetic does: if it was out of bounds by a factor, the smaller
        one is by the square root of that, or more.
        """
        if other is None or (self.kind, self.signature) != (other.kind, other.signature):
            return False
        if self.mismatch is None or other.mismatch is None:
            return True
        return other.mismatch.ratio >= math.sqrt(max(1.0, self.mismatch.ratio))

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def of_exception(error: BaseException) -> Failure:
    """An exception of a backend, without what Dynamo wraps around it."""
    inner = _innermost(error)
    first = (str(inner).strip().splitlines() or [""])[0]
    name = type(inner).__name__
    return Failure("exception", f"{name}: {message_shape(first)}", f"{name}: {first}", _named_in(str(inner)))


def of_ending(status: int, printed: str) -> Failure:
    """A process that died: `status` is negative for a signal, as subprocess has it."""
    ending = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    said = printed.strip().splitlines()
    return Failure("crash", ending, f"the process ended with {ending}" + (f": {said[-1]}" if said else ""))


def of_hang(seconds: float) -> Failure:
    return Failure("hang", "", f"nothing came back within {seconds:g} s")


def of_violation(violation: Violation) -> Failure:
    return Failure(
        "constraint",
        f"{violation.constraint}: {violation.op}",
        str(violation),
        (violation.node,),
        violation=violation,
    )


def of_mismatches(kind: Kind, found: list[Mismatch]) -> Failure | None:
    """The worst of some wrong values, or None if there is none."""
    if not found:
        return None
    worst = max(found, key=lambda one: one.ratio)
    sort = worst.measure if worst.measure in ("missing", "shape", "dtype", "not finite") else "values"
    is_input = kind == "wrong value" and worst.name.startswith("input ")
    noun = "gradient of " if kind == "wrong gradient" else ""
    message = {
        "missing": f"{noun}{worst.name} is not {'written to' if is_input else 'there'}, as by eager PyTorch",
        "shape": f"{noun}{worst.name} has another shape than eager PyTorch's",
        "dtype": f"{noun}{worst.name} has another dtype than eager PyTorch's",
        "not finite": f"{noun}{worst.name} has NaN or infinity at other places than eager PyTorch's",
        "exact": f"{noun}{worst.name} is not equal to eager PyTorch's",
    }.get(worst.measure)
    message = message or (
        f"{noun}{worst.name}: {worst.measure} error {worst.error:.3g}, that of eager PyTorch {worst.noise:.3g}"
    )
    return Failure(kind, sort, message, mismatch=worst)


def message_shape(text: str) -> str:
    """A message without what changes from case to case: numbers, lists of sizes, addresses, numbered names."""
    text = re.sub(r"0x[0-9a-fA-F]+", "#", text)
    text = re.sub(r"(?<=[A-Za-z])(?:_\d+)+\b", "", text)
    text = re.sub(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", "#", text)
    return re.sub(r"[\[(]?#(?:\s*,\s*#)*,?[\])]?", "#", text).strip()


def _innermost(error: BaseException) -> BaseException:
    """The error itself, if Dynamo or Inductor has wrapped it."""
    while isinstance(inner := getattr(error, "inner_exception", None), BaseException):
        error = inner
    return error


def _named_in(text: str) -> tuple[str, ...]:
    """The words of a message that may name a node or an operation."""

    def words() -> Iterator[str]:
        yield from re.findall(r"\b[a-z_][\w.]*\w\b", text)

    return tuple(dict.fromkeys(words()))
