"""What a debugging run has found so far, and the report that is made of it. Whatever fails is in the report, too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from torchport.capture.source import user_line
from torchport.debug import report as r
from torchport.debug.constraints.base import CheckedGraph, Violation
from torchport.debug.folders import REPORT
from torchport.debug.guards.inspector import GuardInspector, Watch
from torchport.debug.guards.model import GuardReport
from torchport.debug.session import Session
from torchport.debug.tree import ArtifactTree
from torchport.errors import CompileError, DiskError, Stopped, TorchportError
from torchport.events import Steps

TOOK_TOO_LONG = "TP1022"
STOPPED = "stopped by Ctrl-C"


@dataclass(frozen=True)
class Subject:
    """What a run is of."""

    name: str
    backend: str
    device: str = "cpu"
    spec: str | None = None
    arguments: tuple[str, ...] = ()
    """What a script was given on its command line."""
    backend_given: str | None = None
    """The backend as it was asked for, a name or `file.py:NAME`; None if nobody did, and a script's own were used."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The constraints, as the options of the command that stood for them."""


@dataclass
class Findings:
    session: Session
    tree: ArtifactTree
    steps: Steps
    guards: GuardReport | None = None
    kernel_diff: r.KernelDiffSection | None = None
    failures: list[r.Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hangs: bool = False
    """Whether the backend took more than its time, and goes on in a thread that cannot be ended."""

    @contextmanager
    def guards_watched(self, name: str, *, other_backends: bool) -> Iterator[None]:
        """Within, breaks, guards and recompilations are gathered, or a note says why they cannot be.

        `other_backends` says whether it counts as a recompilation that a function was compiled for another one before.
        """
        with ExitStack() as stack:
            try:
                watch: Watch | None = stack.enter_context(
                    GuardInspector().watch(other_backends=other_backends)
                )
            except CompileError as error:
                self.notes.append(f"guards and breaks are not known: {error.message}")
                watch = None
            try:
                yield
            finally:
                if watch is not None:
                    self.guards = watch.report().model_copy(update={"subject": name})

    @contextmanager
    def failures_kept(self, step: str) -> Iterator[None]:
        """Within, what is raised ends the step, and not the run. Ctrl-C is noted, and ends the run."""
        try:
            yield
        except KeyboardInterrupt:
            self.fail(step, STOPPED)
            raise
        except Exception as raised:
            self.fail_by(step, raised)

    def fail(self, step: str, message: str, where: str | None = None, code: str | None = None) -> None:
        """Notes a failure, unless it is known already."""
        found = r.Failure(step=step, message=message, where=where, code=code)
        if found not in self.failures:
            self.failures.append(found)

    def fail_by(self, step: str, raised: BaseException) -> None:
        if isinstance(raised, TorchportError):
            self.hangs = self.hangs or raised.code == TOOK_TOO_LONG
            self.fail(step, raised.message, raised.where, raised.code)
            return
        # Dynamo wraps what a backend raises.
        cause: BaseException = getattr(raised, "inner_exception", None) or raised
        self.fail(step, f"{type(cause).__name__}: {cause}", user_line(cause))

    @contextmanager
    def kept_if_stopped(self, subject: Callable[[], Subject]) -> Iterator[None]:
        """Within, Ctrl-C leaves a report of what was found until then, and says where it is."""
        try:
            yield
        except KeyboardInterrupt as stop:
            if not self.failures:
                self.fail("run", STOPPED)
            folder = self.report(subject()).folder
            raise Stopped(
                f"stopped: what was found until then is in {folder}, and `torchport debug analyze {folder}` shows it; "
                "the same command begins a new run"
            ) from stop

    def report(self, subject: Subject) -> r.DebugReport:
        """The report on all that was found, written to the folder of the run."""
        if self.session.constraints:
            for fault in self.session.faults:
                self.fail(r.CHECK, str(fault), code=fault.code)
        violations = self.session.distinct_violations
        return self._written(
            r.DebugReport(
                status="fail" if self._is_failed(violations) else "pass",
                model=subject.name,
                spec=subject.spec,
                arguments=subject.arguments,
                options=dict(subject.options),
                backend=subject.backend,
                backend_given=subject.backend_given,
                device=subject.device,
                timestamp=self.tree.created,
                torch=torch.__version__,
                summary=self._summary(violations),
                graphs=tuple(_info(graph) for graph in self.session.graphs if graph.nodes),
                guards=self.guards,
                constraints=self._constraints(violations),
                kernel_diff=self.kernel_diff,
                failures=tuple(self.failures),
                notes=tuple(self.notes),
                seconds=dict(self.steps.seconds),
                folder=str(self.tree.path),
            )
        )

    def _is_failed(self, violations: Sequence[Violation]) -> bool:
        diff = self.kernel_diff
        return bool(self.failures or violations) or (
            diff is not None and diff.verdict in ("fail", "not proven")
        )

    def _summary(self, violations: Sequence[Violation]) -> r.Summary:
        guards, diff = self.guards, self.kernel_diff
        is_proven = diff is not None and diff.verdict in ("pass", "fail")
        return r.Summary(
            total_graphs=len({graph.name for graph in self.session.graphs if graph.stage != "outside"}),
            graph_breaks=len(guards.breaks) if guards else 0,
            recompilations=len(guards.recompilations) if guards else 0,
            constraint_violations=len(violations),
            kernel_diff_passed=diff.verdict == "pass" if diff is not None and is_proven else None,
        )

    def _constraints(self, violations: Sequence[Violation]) -> r.ConstraintSection:
        return r.ConstraintSection(
            checked=tuple(dict.fromkeys(one.name for one in self.session.constraints)),
            violations=tuple(violations),
            notes=tuple(str(fault) for fault in self.session.faults),
        )

    def _written(self, report: r.DebugReport) -> r.DebugReport:
        """Keeps the report in the folder; if the disk refuses, the report says so itself."""
        path = self.tree.path / REPORT
        report = report.model_copy(update={"artifacts": tuple(self.tree.artifacts)})
        try:
            report.write(path)
            self.tree.note(path, "the report of the run")
        except DiskError as error:
            self.tree.add_problem(error.message)
        if not self.tree.problems:
            return report
        problems = tuple(f"{r.NOT_KEPT}{problem}" for problem in self.tree.problems)
        return report.model_copy(update={"notes": (*report.notes, *problems)})


def _info(graph: CheckedGraph) -> r.GraphInfo:
    ops = Counter(node.op for node in graph.operations)
    return r.GraphInfo(name=graph.name, stage=graph.stage, operations=ops.total(), ops=dict(ops))
