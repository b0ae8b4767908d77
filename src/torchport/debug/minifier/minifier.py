"""From a graph that fails to the least that still does: fewest operations, smallest inputs, plainest values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from torchport.capture.torch_internals import trace_to_aten
from torchport.debug.constraints.base import Constraint, Violation
from torchport.debug.internals.tries import warm_up_inductor
from torchport.debug.minifier import failure as failures
from torchport.debug.minifier.case import GraphCase, canonical_text, case_of
from torchport.debug.minifier.checks import Backend, BackendCheck, Check, ConstraintCheck, Fails, UsersCheck
from torchport.debug.minifier.child import can_fork
from torchport.debug.minifier.failure import Failure
from torchport.debug.minifier.fewest import FewestOperations, fewest_outputs
from torchport.debug.minifier.fresh import FreshRun, run_fresh
from torchport.debug.minifier.fresh_check import FreshCheck
from torchport.debug.minifier.laboratory import REPEATS, Laboratory
from torchport.debug.minifier.recording import record
from torchport.debug.minifier.result import MinifiedGraph
from torchport.debug.minifier.script import TENSORS, Script
from torchport.debug.minifier.smaller import plainest_values, smallest_sizes
from torchport.debug.minifier.stages import Stage, find_stage
from torchport.debug.nodes import full_name
from torchport.errors import CompileError, UsageError
from torchport.explain.repro import counted

LIMIT = 120.0
"""Seconds that a try may take."""
_FRESH = 3
"""How often a script is run if it does not fail at first."""


@dataclass
class Minifier:
    """Reduces a graph, be it Dynamo's or of ATen operations, with its inputs.

    `error` is what is known of the failure: an exception, a Violation, a Failure, a divergence that KernelDiff found
    (anything that names a node), or a function `fails(gm, inputs)` that gives a Failure, or None if the graph does not
    fail. The graph is run with `backend` again and again; a Violation needs the `constraints` instead.
    """

    gm: torch.fx.GraphModule
    inputs: Sequence[Any]
    error: Any = None
    backend: Backend | None = None
    constraints: Sequence[Constraint] = ()
    limit: float = LIMIT
    through_dynamo: bool = True
    """Whether the graph is given to torch.compile, or to the backend at once, as Dynamo would."""
    setup: Sequence[str] = ()
    """Lines of Python that the script begins with, such as an import that registers operations."""
    names_stage: bool = True
    """Whether the stage of the compiler at fault is looked for."""
    say: Callable[[str], None] = lambda text: None
    notes: list[str] = field(default_factory=list, init=False)
    """What a reader must know of the reduction, such as that the graph fails only sometimes."""
    _steps: list[GraphCase] = field(default_factory=list, init=False)
    _stage: Stage | None = field(default=None, init=False)
    _found: GraphCase | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._whole = case_of(self.gm, self.inputs)
        check, forks = self._check(), can_fork(self.inputs)
        if not forks and self._kind() in ("crash", "hang"):
            check = FreshCheck(check, self._kind(), self.limit, self.setup)
        self._laboratory = Laboratory(check, self.limit, forks=forks, say=self.say)

    @property
    def queries(self) -> int:
        """How many times a graph was tried."""
        return self._laboratory.queries

    @property
    def failure(self) -> Failure:
        """How the graph fails, once it has been minified."""
        assert self._laboratory.wanted is not None
        return self._laboratory.wanted

    def minify(self) -> GraphCase:
        """The smallest case that was found. CompileError if the graph does not fail."""
        if self._found is not None:
            return self._found
        laboratory = self._laboratory
        laboratory.wanted = self._failure_of_whole()
        self._looks_for(laboratory.wanted)
        recording = record(self._whole)
        hints = [*self._hints(), *laboratory.wanted.nodes]
        case = FewestOperations(recording, laboratory).find(hints)
        self._steps = [self._whole, case]
        for make_smaller in (fewest_outputs, smallest_sizes, plainest_values):
            case = make_smaller(case, laboratory)
            self._steps.append(case)
        if self.names_stage:
            self._stage = find_stage(case, laboratory.last_failure(case), laboratory)
        if laboratory.broken_tries:
            count = counted(len(laboratory.broken_tries), "try").replace("trys", "tries")
            self.notes.append(f"the check itself raised in {count}: {laboratory.broken_tries[0]}")
        self._found = case
        return case

    def generate_repro_script(self, path: str | Path) -> MinifiedGraph:
        """Writes the smallest script that fails in a fresh process, minifying first if need be.

        If the smallest does not fail there, the next larger one is tried, and so on; that is said in the notes, and so
        is it if none fails.
        """
        self.minify()
        target = Path(path)
        try:
            return self._proven_script(target)
        except KeyboardInterrupt:
            for unproven in (target, target.with_suffix(TENSORS)):
                unproven.unlink(missing_ok=True)
            raise

    def _proven_script(self, target: Path) -> MinifiedGraph:
        smallest = self.minify()
        different = {canonical_text(case): case for case in self._steps}
        run: FreshRun | None = None
        for case in reversed(different.values()):
            self._write(case, target)
            run = self._run_fresh(target, case)
            if run.fails_alike:
                break
            size = counted(len(case.operations), "operation")
            note = f"the script of {size} did not fail in a fresh process (status {run.status})"
            self.notes += [] if note in self.notes else [note]
        else:
            case = smallest
            self._write(case, target)
            self.notes.append(
                "no script fails in a fresh process: the failure depends on something else in this one"
            )
        assert run is not None
        return self._result(case, target, run)

    def _run_fresh(self, path: Path, case: GraphCase) -> FreshRun:
        failure = self._laboratory.last_failure(case)
        for attempt in range(1, _FRESH + 1 if self._laboratory.repeats > 1 else 2):
            run = run_fresh(path, failure, self.limit + 60)
            if run.fails_alike and attempt > 1:
                self.notes.append(f"in a fresh process it failed at the run number {attempt}")
            if run.fails_alike:
                break
        return run

    def _write(self, case: GraphCase, path: Path) -> None:
        failure = self._laboratory.last_failure(case)
        whole = counted(len(self._whole.operations), "operation")
        notes = [f"Reduced from {whole} in {counted(self.queries, 'run')}."]
        notes += [f"Stage at fault: {self._stage}."] if self._stage else []
        notes += [f"Note: {note}." for note in self.notes]
        check = self._laboratory.check
        held = check.check if isinstance(check, FreshCheck) else check
        Script(case, failure, held, notes, self.setup).write(path)

    def _result(self, case: GraphCase, path: Path, run: FreshRun) -> MinifiedGraph:
        failure = self._laboratory.last_failure(case)
        tensors = {
            name: tuple(value.shape) if isinstance(value, torch.Tensor) else ()
            for name, value in zip(case.names, case.inputs, strict=True)
        }
        return MinifiedGraph(
            kind=failure.kind,
            message=failure.message,
            operations=tuple(full_name(node, case.module) for node in case.operations),
            operations_before=len(self._whole.operations),
            inputs=tensors,
            script=str(path),
            queries=self.queries,
            stage=None if self._stage is None else str(self._stage),
            notes=tuple(self.notes),
            fails_in_fresh_process=run.fails_alike,
            output=run.said[-2000:],
        )

    def _check(self) -> Check:
        if isinstance(self.error, Violation):
            return ConstraintCheck(
                self._known_constraints(), self.error.stage, failures.of_violation(self.error)
            )
        if self.backend is not None:
            return BackendCheck(self.backend, self._kind(), self.through_dynamo)
        if self.constraints:
            return ConstraintCheck(tuple(self.constraints), "forward")
        if callable(self.error) and not isinstance(self.error, type):
            fails: Fails = self.error
            return UsersCheck(fails)
        raise UsageError(
            "TP1041",
            "nothing says how to see whether a graph fails",
            fix="Give backend=, or the constraints that a Violation is of, or a function fails(gm, inputs).",
        )

    def _known_constraints(self) -> tuple[Constraint, ...]:
        found = tuple(self.constraints) or tuple(getattr(self.backend, "constraints", ()))
        if not found:
            raise UsageError(
                "TP1041",
                f"the constraint {self.error.constraint} is not known here",
                fix="Give constraints=[…], those that the graph was held against.",
            )
        return found

    def _kind(self) -> failures.Kind | None:
        return self.error.kind if isinstance(self.error, Failure) else None

    def _hints(self) -> list[str]:
        """The nodes that the error names."""
        if isinstance(self.error, BaseException):
            return list(failures.of_exception(self.error).nodes)
        places = (self.error, getattr(self.error, "operation", None))
        named = (getattr(place, key, None) for place in places for key in ("node", "name"))
        return [name for name in named if isinstance(name, str)]

    def _failure_of_whole(self) -> Failure:
        """How the whole graph fails, if it does so as the error says."""
        laboratory = self._laboratory
        if laboratory.forks and self.backend in ("inductor", "torchport_inductor"):
            warm_up_inductor()
        found = laboratory.failure_of(self._whole)
        for _ in range(REPEATS - 1):
            if found is not None:
                break
            found = laboratory.failure_of(self._whole)
            if found is not None:
                laboratory.repeats = REPEATS
                self.notes.append("the graph fails only sometimes")
        if found is None and isinstance(laboratory.check, ConstraintCheck):
            self._whole = _as_aten(self._whole)
            found = laboratory.failure_of(self._whole)
        if laboratory.forks and self._kind() not in ("crash", "hang") and not self._is_expected(found):
            found = self._failure_here() or found
        if found is None:
            raise CompileError("TP1046", "the graph does not fail")
        self._must_be_expected(found)
        laboratory.remember(self._whole, found)
        return found

    def _failure_here(self) -> Failure | None:
        """How the whole graph fails in this process, for its copies, which lack threads and devices, fail otherwise."""
        laboratory = self._laboratory
        laboratory.forks = False
        found = laboratory.failure_of(self._whole)
        laboratory.forks = not self._is_expected(found)
        return None if laboratory.forks else found

    def _is_expected(self, found: Failure | None) -> bool:
        expected = self._expected()
        return found is not None if expected is None else expected.is_kept_by(found)

    def _must_be_expected(self, found: Failure) -> None:
        expected = self._expected()
        if found.kind == "hang" and (expected is None or expected.kind != "hang"):
            raise CompileError("TP1049", f"the graph does not end: {found.message}")
        if expected is None or self._is_expected(found):
            return
        if expected.kind != found.kind:
            raise CompileError("TP1047", f"the graph fails otherwise: expected {expected}, found {found}")
        self.notes.append(f"the error was {expected.message}, and the graph fails with {found.message}")

    def _expected(self) -> Failure | None:
        if isinstance(self.error, Failure):
            return self.error
        if isinstance(self.error, Violation):
            return failures.of_violation(self.error)
        return failures.of_exception(self.error) if isinstance(self.error, BaseException) else None

    def _looks_for(self, wanted: Failure) -> None:
        """From here on, tries look for this failure alone."""
        check = self._laboratory.check
        if isinstance(check, FreshCheck):
            return
        if isinstance(check, BackendCheck):
            self._laboratory.check = replace(check, kind=wanted.kind)
        elif isinstance(check, ConstraintCheck):
            self._laboratory.check = replace(check, wanted=wanted)


def _as_aten(case: GraphCase) -> GraphCase:
    """The case as a graph of ATen operations, which constraints of later stages are about."""
    return case_of(trace_to_aten(case.module, case.fresh_inputs(), pre_dispatch=False), case.inputs)
