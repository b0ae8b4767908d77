"""A debugging run of a model: it is compiled with everything watched, its kernels are compared, and all is reported.

In: a model with its inputs, and options. Out: a report, and a folder with the artifacts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from torchport.capture.source import user_line
from torchport.debug import report as r
from torchport.debug.backends.choosing import Backend, Chosen, chosen
from torchport.debug.backends.outside import outside_watched
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.constraints.base import Constraint
from torchport.debug.findings import Findings, Subject
from torchport.debug.folders import ROOT, in_progress, new_tree
from torchport.debug.kernel_diff.deadline import within
from torchport.debug.kernel_diff.diff_report import DiffReport
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.debug.kernel_diff.notes import NO_GRAPH
from torchport.debug.kernel_diff.whole_model import NO_GRADIENT, WholeModel
from torchport.debug.progress import compilations_said
from torchport.debug.session import Session
from torchport.debug.torch_warnings import kept_as_notes
from torchport.debug.tree import ArtifactTree
from torchport.errors import CaptureError, UsageError
from torchport.events import Steps, Watcher, ignore
from torchport.pages import must_be_installed

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
    whole = _that_runs(WholeModel.of(model, args, dict(kwargs or {}), gradients=options.gradients))
    steps, tree = Steps(watch), new_tree(Path(root), f"{name}-{backend.name}")
    session = Session([*options.constraints, *backend.constraints], tree, say=steps.say)
    subject = Subject(name, backend.name, _device(model), spec, (), named(options.backend), dict(given or {}))
    findings = Findings(session, tree, steps, notes=list(whole.notes))
    with in_progress(tree.path):
        with findings.kept_if_stopped(lambda: subject), kept_as_notes(findings.notes):
            _Run(whole, options, backend, findings).all_of_it(name)
        return findings.report(subject)


def named(backend: Backend | None) -> str | None:
    """A backend as it was asked for, if that is text."""
    return backend if isinstance(backend, str) else None


def _that_runs(whole: WholeModel) -> WholeModel:
    """The model with its backward pass, if eager PyTorch itself can do that; CaptureError if it fails its forward."""
    try:
        run = whole.run()
        is_forward_only = whole.gradients and not run.has_gradients
        return whole.forward_only(NO_GRADIENT) if is_forward_only else whole
    except Exception as error:
        if not whole.gradients:
            said = f"{type(error).__name__}: {error}"
            raise CaptureError(
                "TP0201", f"the model fails its own forward: {said}", user_line(error)
            ) from error
        return _that_runs(
            whole.forward_only(
                f"only the forward pass: eager PyTorch cannot differentiate the model ({error})"
            )
        )


@dataclass(frozen=True)
class _Run:
    whole: WholeModel
    options: DebugOptions
    backend: Chosen
    findings: Findings

    def all_of_it(self, name: str) -> None:
        findings = self.findings
        self._compile(name)
        diff = self._compared(name) if self._can_be_compared() else None
        if diff is not None:
            findings.kernel_diff = _section(diff, self.backend.name, findings.tree, self.whole.gradients)
        if problem := self._problem(diff):
            findings.fail(*problem)
        if self.whole.model.training:
            findings.notes.append("the model is in training mode, and was compiled so")

    def _compile(self, name: str) -> None:
        """Compiles the model and runs it once, forward and backward, with everything watched."""
        findings, options = self.findings, self.options
        backend = self.backend.with_session(findings.session, strict=options.strict)
        with (
            findings.guards_watched(name, other_backends=False),
            findings.failures_kept("compile"),
            findings.steps.step("build", f"compiling {name} for {self.backend.name}"),
        ):
            compiled: Any = torch.compile(self.whole.model, backend=backend, dynamic=options.dynamic)

            def called(*args: Any, **kwargs: Any) -> Any:
                with outside_watched(findings.session):
                    return compiled(*args, **kwargs)

            within(options.timeout_s, f"compiling {name}", partial(self.whole.run, called))

    def _compared(self, name: str) -> DiffReport | None:
        options, findings = self.options, self.findings
        config = ComparisonConfig(
            gradients=self.whole.gradients, runs=options.runs, timeout_s=options.timeout_s
        )
        with (
            findings.failures_kept("compare"),
            findings.steps.step("compare", f"comparing {name} with eager PyTorch"),
            compilations_said(findings.steps.say),
        ):
            harness = KernelDiffHarness(
                self.whole.model,
                (self.whole.args, dict(self.whole.kwargs)),
                model_name=name,
                test_backend=self.backend.plain,
                config=config,
                tree=findings.tree,
            )
            out, pictures = findings.tree.path / "reports" / KERNEL_DIFF, self._draws_pictures()
            return harness.compare(generate_visualizations=pictures, out=out)
        return None

    def _problem(self, diff: DiffReport | None) -> tuple[str, str] | None:
        """A step that did not reach what was asked for although nothing was raised, and why."""
        findings = self.findings
        if not findings.failures and all(graph.stage == "outside" for graph in findings.session.graphs):
            return "compile", NO_GRAPH
        if diff is not None and diff.verdict in ("fail", "not compared") and diff.report.stopped is not None:
            return "compare", diff.report.stopped
        if diff is not None and diff.verdict == "not compared":
            return "compare", "nothing could be compared"
        return None

    def _can_be_compared(self) -> bool:
        """Whether kernels are compared; a note says why not."""
        if why := self._why_not_compared():
            self.findings.notes.append(f"kernels were not compared{why}")
        return not why

    def _why_not_compared(self) -> str | None:
        if not self.options.compare:
            return ", as asked for"
        if "meta" in _device(self.whole.model):
            return ": the model is on the meta device, where tensors have no values"
        if self.findings.hangs:
            return ": the backend still hangs, and Dynamo compiles nothing else meanwhile"
        return None

    def _draws_pictures(self) -> bool:
        """Whether errors can be drawn; if not, a note says what to install."""
        try:
            must_be_installed("pictures of errors", ("altair", "vl_convert"))
        except UsageError as error:
            self.findings.notes.append(f"{error.message}. {error.fix}")
            return False
        return True


def _device(model: torch.nn.Module) -> str:
    return ", ".join(sorted({tensor.device.type for tensor in model.parameters()})) or "cpu"


def _section(diff: DiffReport, backend: str, tree: ArtifactTree, gradients: bool) -> r.KernelDiffSection:
    report, culprit = diff.report, diff.report.first_divergence
    folder = tree.path / "reports" / KERNEL_DIFF
    return r.KernelDiffSection(
        verdict=diff.verdict,
        why=report.stopped,
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
