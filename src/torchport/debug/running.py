"""A debugging run: a model is compiled with everything watched, its kernels are compared, and all of it is reported.

In: a model with its inputs, and options. Out: a report, and a folder with the artifacts. Whatever fails is in the
report, beside what was gathered until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from torchport.capture.source import user_line
from torchport.debug import report as r
from torchport.debug.backends.choosing import Backend, chosen
from torchport.debug.backends.outside import outside_watched
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.constraints.base import CheckedGraph, Constraint
from torchport.debug.folders import REPORT, ROOT, new_tree
from torchport.debug.guards.inspector import GuardInspector, Watch
from torchport.debug.guards.model import GuardReport
from torchport.debug.kernel_diff.deadline import within
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.debug.kernel_diff.notes import NO_GRAPH, NO_KERNEL
from torchport.debug.kernel_diff.whole_model import WholeModel
from torchport.debug.session import Session
from torchport.debug.tree import ArtifactTree
from torchport.errors import CaptureError, CompileError, DiskError, TorchportError, UsageError
from torchport.events import Steps, Watcher, ignore
from torchport.pages import must_be_installed
from torchport.runs.report import Report

TOOK_TOO_LONG = "TP1022"
KERNEL_DIFF = "kernel_diff"
"""The folder, among the reports, of the run with every layer."""


@dataclass(frozen=True)
class DebugOptions:
    backend: Backend = "inductor"
    constraints: Sequence[Constraint] = ()
    strict: bool = False
    """Whether a violated constraint ends the compilation; otherwise all of them are gathered."""
    gradients: bool = True
    """Whether the backward pass is compiled and compared, if there is one."""
    compare: bool = True
    """Whether kernels are compared with eager PyTorch."""
    dynamic: bool | None = None
    runs: int = 1
    timeout_s: float | None = None


def debug_run(
    model: torch.nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    spec: str | None = None,
    root: str | Path = ROOT,
    options: DebugOptions | None = None,
    given: Mapping[str, Any] | None = None,
    watch: Watcher = ignore,
) -> r.DebugReport:
    """Compiles and compares a model, and writes what was found to a folder of its own under `root`."""
    options = options or DebugOptions()
    backend = chosen(options.backend)
    name = name or type(model).__name__
    has_gradients = options.gradients and any(parameter.requires_grad for parameter in model.parameters())
    whole, why_not = _that_runs(WholeModel(model, args, dict(kwargs or {}), has_gradients, None))
    tree = new_tree(Path(root), f"{name}-{backend.name}")
    return _Run(whole, options, tree, Steps(watch), notes=why_not).report(name, spec, dict(given or {}))


def _that_runs(whole: WholeModel) -> tuple[WholeModel, list[str]]:
    """The model with its backward pass, if eager PyTorch itself can do that; CaptureError if it fails its forward."""
    try:
        whole.run()
        return whole, []
    except Exception as error:
        if not whole.gradients:
            said = f"{type(error).__name__}: {error}"
            raise CaptureError(
                "TP0201", f"the model fails its own forward: {said}", user_line(error)
            ) from error
        forward, _ = _that_runs(replace(whole, gradients=False))
        return forward, [f"only the forward pass: eager PyTorch cannot differentiate the model ({error})"]


@dataclass
class _Run:
    whole: WholeModel
    options: DebugOptions
    tree: ArtifactTree
    steps: Steps
    failures: list[r.Failure] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    hangs: bool = False
    """Whether the backend took more than its time, and goes on in a thread that cannot be ended."""

    def report(self, name: str, spec: str | None, given: dict[str, Any]) -> r.DebugReport:
        backend = chosen(self.options.backend)
        session = Session([*self.options.constraints, *backend.constraints], self.tree)
        guards = self._compiled(name, backend.with_session(session, strict=self.options.strict), session)
        diff = self._compared(name, backend.plain) if self._can_be_compared() else None
        section = None if diff is None else _section(diff, backend.name, self.tree, self.whole.gradients)
        if not self.failures and all(graph.stage == "outside" for graph in session.graphs):
            self.failures.append(r.Failure(step="compile", message=NO_GRAPH))
        elif diff is not None and diff.stopped not in (None, NO_KERNEL):
            self.failures.append(r.Failure(step="compare", message=str(diff.stopped)))
        elif section is not None and section.verdict == "not compared":
            self.failures.append(r.Failure(step="compare", message="nothing could be compared"))
        if session.constraints:
            self.failures += [r.Failure(step=r.CHECK, message=str(fault)) for fault in session.faults]
        violations = session.distinct_violations
        report = r.DebugReport(
            status=self._status(violations, section),
            model=name,
            spec=spec,
            options=given,
            backend=backend.name,
            device=_device(self.whole.model),
            timestamp=self.tree.created,
            torch=torch.__version__,
            summary=r.Summary(
                total_graphs=len({graph.name for graph in session.graphs if graph.stage != "outside"}),
                graph_breaks=len(guards.breaks) if guards else 0,
                recompilations=len(guards.recompilations) if guards else 0,
                constraint_violations=len(violations),
                kernel_diff_passed=_passed(section),
            ),
            graphs=tuple(_info(graph) for graph in session.graphs if graph.nodes),
            guards=guards,
            constraints=r.ConstraintSection(
                checked=tuple(dict.fromkeys(one.name for one in session.constraints)),
                violations=tuple(violations),
                notes=tuple(str(fault) for fault in session.faults),
            ),
            kernel_diff=section,
            failures=tuple(self.failures),
            notes=tuple(self._notes()),
            seconds=dict(self.steps.seconds),
            folder=str(self.tree.path),
        )
        return self._written(report)

    def _compiled(self, name: str, backend: Any, session: Session) -> GuardReport | None:
        """Compiles the model and runs it once, forward and backward, with everything watched."""
        with ExitStack() as stack:
            try:
                watch: Watch | None = stack.enter_context(GuardInspector().watch())
            except CompileError as error:
                self.notes.append(f"guards and breaks are not known: {error.message}")
                watch = None
            with self._failures_kept("compile"), self.steps.step("build", f"compiling {name}"):
                compiled: Any = torch.compile(self.whole.model, backend=backend, dynamic=self.options.dynamic)

                def called(*args: Any, **kwargs: Any) -> Any:
                    with outside_watched(session):
                        return compiled(*args, **kwargs)

                within(self.options.timeout_s, f"compiling {name}", partial(self.whole.run, called))
            return None if watch is None else watch.report().model_copy(update={"subject": name})

    def _compared(self, name: str, backend: Any) -> Report | None:
        options = self.options
        config = ComparisonConfig(
            gradients=self.whole.gradients, runs=options.runs, timeout_s=options.timeout_s
        )
        with (
            self._failures_kept("compare"),
            self.steps.step("compare", f"comparing {name} with eager PyTorch"),
        ):
            harness = KernelDiffHarness(
                self.whole.model,
                (self.whole.args, dict(self.whole.kwargs)),
                model_name=name,
                test_backend=backend,
                config=config,
                tree=self.tree,
            )
            out, pictures = self.tree.path / "reports" / KERNEL_DIFF, self._draws_pictures()
            return harness.compare(generate_visualizations=pictures, out=out).report
        return None

    def _can_be_compared(self) -> bool:
        """Whether kernels are compared; a note says why not."""
        if why := self._why_not_compared():
            self.notes.append(f"kernels were not compared{why}")
        return not why

    def _why_not_compared(self) -> str | None:
        if not self.options.compare:
            return ", as asked for"
        if "meta" in _device(self.whole.model):
            return ": the model is on the meta device, where tensors have no values"
        if self.hangs:
            return ": the backend still hangs, and Dynamo compiles nothing else meanwhile"
        return None

    def _draws_pictures(self) -> bool:
        """Whether errors can be drawn; if not, a note says what to install."""
        try:
            must_be_installed("pictures of errors", ("altair", "vl_convert"))
        except UsageError as error:
            self.notes.append(f"{error.message}. {error.fix}")
            return False
        return True

    @contextmanager
    def _failures_kept(self, step: str) -> Iterator[None]:
        try:
            yield
        except TorchportError as error:
            self.hangs = self.hangs or error.code == TOOK_TOO_LONG
            self.failures.append(r.Failure(step=step, message=error.message, where=error.where))
        except Exception as raised:
            # Dynamo wraps what a backend raises.
            cause: Any = getattr(raised, "inner_exception", None) or raised
            said = f"{type(cause).__name__}: {cause}"
            self.failures.append(r.Failure(step=step, message=said, where=user_line(cause)))

    def _status(self, violations: Sequence[Any], section: r.KernelDiffSection | None) -> r.Status:
        if self.failures or violations or (section is not None and section.verdict == "fail"):
            return "fail"
        return "pass"

    def _notes(self) -> Iterator[str]:
        yield from self.notes
        if self.whole.model.training:
            yield "the model is in training mode, and was compiled so"

    def _written(self, report: r.DebugReport) -> r.DebugReport:
        """Keeps the report in the folder; if the disk refuses, the report says so itself."""
        path = self.tree.path / REPORT
        report = report.model_copy(update={"artifacts": tuple(self.tree.artifacts)})
        try:
            report.write(path)
            self.tree.note(path, "the report of the run")
        except DiskError as error:
            self.tree.problems.append(error.message)
        if not self.tree.problems:
            return report
        problems = tuple(f"not kept: {problem}" for problem in self.tree.problems)
        return report.model_copy(update={"notes": (*report.notes, *problems)})


def _device(model: torch.nn.Module) -> str:
    return ", ".join(sorted({tensor.device.type for tensor in model.parameters()})) or "cpu"


def _info(graph: CheckedGraph) -> r.GraphInfo:
    ops = Counter(node.op for node in graph.operations)
    return r.GraphInfo(name=graph.name, stage=graph.stage, operations=ops.total(), ops=dict(ops))


def _passed(section: r.KernelDiffSection | None) -> bool | None:
    return None if section is None or section.verdict not in ("pass", "fail") else section.verdict == "pass"


def _verdict(report: Report) -> r.Verdict:
    """What is known of the kernels. A comparison that ended before anything diverged says nothing of them."""
    if report.passed:
        return "pass"
    if report.stopped == NO_KERNEL:
        return "no kernel ran"
    return "fail" if report.status == "fail" else "not compared"


def _section(report: Report, backend: str, tree: ArtifactTree, gradients: bool) -> r.KernelDiffSection:
    culprit = report.first_divergence
    folder = tree.path / "reports" / KERNEL_DIFF
    return r.KernelDiffSection(
        verdict=_verdict(report),
        reference="eager",
        backend=backend,
        compared=report.compared,
        culprit=None
        if culprit is None
        else r.Culprit(
            layer=culprit.layer,
            operation=None if culprit.operation is None else culprit.operation.op,
            source=culprit.source if culprit.operation is None else culprit.operation.source,
            reason=culprit.reason,
        ),
        gradients=gradients,
        notes=report.notes,
        folder=folder.relative_to(tree.path).as_posix() if folder.is_dir() else None,
    )
