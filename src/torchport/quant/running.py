"""`torchport quantize`: a model is ported and proven, then runs on its weights in blocks, scheme after scheme."""

from __future__ import annotations

import math
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchport.capture.spec import load_spec
from torchport.errors import TorchportError, UsageError
from torchport.events import Message, Watcher
from torchport.fan_out import Engine
from torchport.files import write_atomically
from torchport.porting import ctrl_c
from torchport.porting.commands import unless_it_ends
from torchport.porting.overwriting import must_not_lose_work
from torchport.porting.port import Port, must_be_writable, port, safe_name
from torchport.quant.engine import MEASURED, Task, run_tasks
from torchport.quant.measuring import Subject, formats_of, known_importance, mix_of, subject_of
from torchport.quant.planned import plan_for
from torchport.quant.results import LeftAsFloats, Plan, QuantReport, SchemeDrift, Sensitivity
from torchport.quant.sensitivity import choices_of, sensitivities
from torchport.quant.storing import Importance, Mix, digest_of, stored_bytes
from torchport.runs.folder import BLOCKS, QUANTIZATION_FILE, open_folder
from torchport.runs.report import Report
from torchport.targets.registry import DEFAULT, find_target


@dataclass(frozen=True)
class Asked:
    """What is to be found out about a port."""

    schemes: tuple[str, ...] = ()
    sensitivity: bool = False
    budget: float | None = None
    """The bytes that a plan may take up, floats included."""
    max_drift: float | None = None
    """The RMS error of the output that a plan may make, as a share of the output's RMS."""
    by_importance: bool = False
    engine: Engine = "local"
    jobs: int | None = None

    @property
    def plans(self) -> bool:
        return self.budget is not None or self.max_drift is not None


def quantize_spec(
    spec: str,
    asked: Asked,
    *,
    out: Path | None,
    name: str | None,
    dynamic: str | None,
    force: bool = False,
    watch: Watcher,
) -> QuantReport:
    """Ports a model, proves the port, and measures what is asked for.

    An error on the way to the verdict leaves a run that was there before as it was.
    """
    must_be_sound(asked)
    folder = out or Path("torchport-out") / (name or safe_name(spec.rpartition(":")[2]))
    must_be_writable(folder)
    target = find_target(DEFAULT)
    if not force:
        must_not_lose_work(folder, target)
    called = name or safe_name(spec.rpartition(":")[2])
    with ctrl_c.during_a_port(folder), unless_it_ends(folder, target), _same_blocks_kept(folder):
        watch(Message(f"loading {spec}"))
        given = load_spec(spec)
        made = port(
            given.model,
            given.args,
            given.kwargs,
            target=DEFAULT,
            out=folder,
            name=called,
            dynamic=dynamic,
            watch=watch,
            force=force,
        )
        mixes, proof = proven(made, asked, watch=watch)
    return _measured(made, asked, mixes, proof, watch=watch)


@contextmanager
def _same_blocks_kept(folder: Path) -> Iterator[None]:
    """Within, a port is made, which takes the blocks of the one before; they come back if the weights are the same."""
    before, aside = _weights_in(folder), folder / MEASURED / ".blocks"
    shutil.rmtree(aside, ignore_errors=True)
    if before is not None and (folder / BLOCKS).is_dir():
        shutil.copytree(folder / BLOCKS, aside, copy_function=_link)
    try:
        yield
        if aside.is_dir() and _weights_in(folder) == before:
            shutil.rmtree(folder / BLOCKS, ignore_errors=True)
            aside.rename(folder / BLOCKS)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _link(file: str, other: str) -> None:
    """The same file under another name; a copy on disks that have no links."""
    try:
        os.link(file, other)
    except OSError:
        shutil.copy2(file, other)


def _weights_in(folder: Path) -> str | None:
    """A digest of the weights that the port in a folder was recorded with; None if there is no such port."""
    try:
        weights = open_folder(folder).captured("weights")
    except TorchportError:
        return None
    return digest_of(weights) if weights.is_file() else None


def must_be_sound(asked: Asked) -> None:
    if not asked.schemes and not asked.sensitivity and not asked.plans:
        raise UsageError("TP0801", "--schemes is empty", fix="Give some, such as --schemes q8_0,q4_0.")
    for flag, value in (("--budget-mb", asked.budget), ("--max-drift", asked.max_drift)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError("TP0801", f"{flag} must be a number above 0")
    for scheme in asked.schemes:
        formats_of(scheme)
    if asked.budget is not None and asked.max_drift is not None:
        raise UsageError("TP0801", "--budget-mb and --max-drift do not go together", fix="Give one of them.")


def quantize_port(made: Port, asked: Asked, *, watch: Watcher) -> QuantReport:
    """The same for a port that is there. What is found is kept in the folder of the run."""
    mixes, proof = proven(made, asked, watch=watch)
    return _measured(made, asked, mixes, proof, watch=watch)


Mixes = Mapping[str, Mix]
"""The formats of the weights by scheme."""


def proven(made: Port, asked: Asked, *, watch: Watcher) -> tuple[Mixes, Report]:
    """The schemes as formats of the weights of a port, and the verdict on it as it is."""
    made.watch = watch
    chosen = subject_of(made).chosen
    mixes = {scheme: mix_of(scheme, chosen) for scheme in dict.fromkeys(asked.schemes)}
    proof = made.check(explain=False)
    if proof.status == "unsupported":
        todos = ", ".join(sorted({todo.op for todo in proof.todos}))
        raise UsageError("TP0801", f"{made.files.name} has TODOs and cannot be run: {todos}")
    return mixes, proof


def _measured(made: Port, asked: Asked, mixes: Mixes, proof: Report, *, watch: Watcher) -> QuantReport:
    subject = subject_of(made)
    facts: dict[str, Any] = {
        "model": made.files.name,
        "float_bytes": stored_bytes(subject.weights, {}),
        "floats": tuple(left_as_floats(subject)),
    }
    if not proof.passed:
        note = "the port itself diverges, so that no drift of it can be laid to its weights: run `torchport check`"
        return _kept(QuantReport(status="unproven", notes=(note,), **facts), subject)
    measuring = _Measuring(subject, asked, known_importance(subject), watch)
    base = measuring.outputs([("floats", {})])[0].outputs
    facts |= {"port": base}
    facts["schemes"] = tuple(measuring.schemes(mixes))
    if asked.sensitivity or asked.plans:
        found = sensitivities(subject, measuring.outputs, base.mse)
        facts["sensitivity"] = tuple(found)
        if asked.plans:
            facts["plan"] = measuring.plan(found)
    missed = facts.get("plan") is not None and not facts["plan"].met
    return _kept(QuantReport(status="missed" if missed else "done", **facts), subject)


@dataclass(frozen=True)
class _Measuring:
    """Measurements of one port, all in the same way."""

    subject: Subject
    asked: Asked
    importance: Importance
    watch: Watcher

    def schemes(self, mixes: Mapping[str, Mix]) -> list[SchemeDrift]:
        """Whole schemes, by layer, with their files kept."""
        keep = {scheme: str(self.subject.files.path / BLOCKS / f"{scheme}.gguf") for scheme in mixes}
        return self._run([self._task(scheme, mix, keep=keep[scheme]) for scheme, mix in mixes.items()])

    def outputs(self, mixes: Sequence[tuple[str, dict[str, str]]]) -> list[SchemeDrift]:
        """Only the drift of the outputs."""
        return self._run([self._task(name, mix, by_layer=False) for name, mix in mixes])

    def plan(self, found: Sequence[Sensitivity]) -> Plan:
        floats = stored_bytes(self.subject.weights, dict.fromkeys(self.subject.chosen.candidates, "f32"))
        blocks = sum(4 * candidate.numel for candidate in self.subject.chosen.candidates.values())
        choices = choices_of(self.subject, found, self.importance, by_importance=self.asked.by_importance)
        return plan_for(
            choices,
            fixed_bytes=floats - blocks,
            budget=self.asked.budget,
            max_drift=self.asked.max_drift,
            measure=lambda mix: self.schemes({"plan": mix})[0],
        )

    def _task(self, scheme: str, mix: Mix, *, keep: str | None = None, by_layer: bool = True) -> Task:
        folder = str(self.subject.files.path.resolve())
        return Task(folder, scheme, tuple(mix.items()), self.asked.by_importance, by_layer, keep)

    def _run(self, tasks: Sequence[Task]) -> list[SchemeDrift]:
        return run_tasks(
            tasks,
            self.subject,
            self.importance,
            engine=self.asked.engine,
            jobs=self.asked.jobs,
            watch=self.watch,
        )


def left_as_floats(subject: Subject) -> list[LeftAsFloats]:
    """The weights that stay floats under every scheme, by the reason."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for name, reason in subject.chosen.floats.items():
        by_reason[reason].append(name)
    bytes_of = {name: subject.weights.read(name).nbytes for name in subject.chosen.floats}
    return [
        LeftAsFloats(reason=reason, weights=tuple(names), bytes=sum(bytes_of[name] for name in names))
        for reason, names in sorted(by_reason.items())
    ]


def _kept(report: QuantReport, subject: Subject) -> QuantReport:
    file = subject.files.path / QUANTIZATION_FILE
    report = report.model_copy(update={"report": str(file)})
    write_atomically(file, report.model_dump_json(indent=1) + "\n")
    return report
