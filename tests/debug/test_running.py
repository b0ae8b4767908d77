"""A whole debugging run: what it finds, what it keeps, and what is left when something fails."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from torchport.debug import (
    Constraint,
    DebugOptions,
    DebugReport,
    DtypeConstraint,
    debug_run,
    phrases,
    terminal,
)
from torchport.debug.constraints.base import CheckedGraph, Found
from torchport.debug.folders import REPORT
from torchport.debug.internals import dynamo
from torchport.debug.kernel_diff.diff_report import DiffReport
from torchport.debug.running import _Run
from torchport.debug.torch_warnings import kept_as_notes
from torchport.errors import CaptureError, DiskError
from torchport.events import text_of
from torchport.runs.report import Report

from .planted import Planted
from .small_run import Net, run, wrong_relu


def test_a_run_keeps_its_report_and_its_graphs(tmp_path: Path) -> None:
    report = run(tmp_path, gradients=True)
    assert report.status == "pass" and report.summary.total_graphs == 1
    assert {graph.stage for graph in report.graphs} == {"dynamo", "forward", "backward"}
    assert report.folder is not None
    kept = DebugReport.read(Path(report.folder) / REPORT)
    assert kept.summary == report.summary and kept.guards == report.guards
    assert {one.path.partition("/")[0] for one in report.artifacts} >= {"fx_graphs", "aot_graphs"}


def test_eager_is_never_taken_for_a_proof(tmp_path: Path) -> None:
    report = run(tmp_path)
    assert report.kernel_diff is not None and report.kernel_diff.verdict == "no kernel ran"
    assert report.summary.kernel_diff_passed is None


def test_violations_are_gathered_and_fail_the_run(tmp_path: Path) -> None:
    report = run(tmp_path, constraints=[DtypeConstraint(allowed_dtypes={"bfloat16"})], compare=False)
    assert report.status == "fail" and report.summary.constraint_violations > 1
    places = {violation.module for violation in report.constraints.violations}
    assert {"fc", "act"} <= places and not report.failures


def test_a_strict_run_stops_and_says_so(tmp_path: Path) -> None:
    rules: list[Constraint] = [DtypeConstraint(allowed_dtypes={"bfloat16"})]
    report = run(tmp_path, constraints=rules, strict=True, compare=False)
    assert [failure.step for failure in report.failures] == ["compile"]
    assert "bfloat16" in report.failures[0].message or "float32" in report.failures[0].message
    assert report.summary.constraint_violations > 0


class Raises(Constraint):
    name = "raises"

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        raise ZeroDivisionError("in the constraint")


def test_a_constraint_that_cannot_be_checked_is_not_kept_to(tmp_path: Path) -> None:
    report = run(tmp_path, constraints=[Raises()], compare=False)
    assert report.status == "fail" and {failure.step for failure in report.failures} == {"check"}
    assert "in the constraint" in report.failures[0].message
    text = StringIO()
    terminal.summary(report, Console(width=200, file=text))
    assert "none violated" not in text.getvalue()


class Counted(nn.Module):
    def forward(self, x: Tensor) -> int:
        return x.shape[0]


def test_a_comparison_that_could_not_be_made_blames_no_kernel(tmp_path: Path) -> None:
    report = run(tmp_path, Counted(), backend="aot_eager")
    assert report.kernel_diff is not None and report.kernel_diff.verdict == "not compared"
    assert report.summary.kernel_diff_passed is None
    assert "does not compute what" not in phrases.headline(report)


def test_without_what_draws_pictures_kernels_are_compared_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    report = run(tmp_path, backend=wrong_relu)
    assert report.kernel_diff is not None and report.kernel_diff.verdict == "fail"
    assert not report.failures and any("vl_convert" in note for note in report.notes)


def test_on_the_meta_device_graphs_are_checked_and_nothing_is_compared(tmp_path: Path) -> None:
    model, inputs = nn.Linear(6, 6, device="meta"), torch.randn(2, 6, device="meta")
    options = DebugOptions(backend="aot_eager", constraints=[DtypeConstraint(allowed_dtypes={"float32"})])
    report = debug_run(model, (inputs,), root=tmp_path, options=options)
    assert report.status == "pass" and report.kernel_diff is None
    assert any("meta device" in note for note in report.notes)


def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    report = run(tmp_path, model, gradients=True)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training and all(parameter.grad is None for parameter in model.parameters())
    assert any("training mode" in note for note in report.notes)


class NotDifferentiable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        y = (x * self.weight).exp()
        y += y.relu()
        return y.mul_(2)


def test_a_model_that_eager_cannot_differentiate_is_debugged_forward(tmp_path: Path) -> None:
    report = run(tmp_path, NotDifferentiable(), gradients=True, compare=False)
    assert report.status == "pass" and any("cannot differentiate" in note for note in report.notes)
    assert "backward" not in {graph.stage for graph in report.graphs}


FORWARD_ONLY = Planted(torch.ops.aten.addmm.default, lambda bias, a, b: bias + (a.flip(1) @ b.flip(0)))
"""A backend with a kernel for the forward pass, which leaves the backward pass to eager PyTorch."""


class WithoutWeights(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x).softmax(-1)


def frozen() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), nn.Tanh()).requires_grad_(False)


@pytest.mark.parametrize("model", [WithoutWeights, frozen])
def test_a_model_is_differentiated_by_its_inputs_if_no_weight_asks_for_it(
    tmp_path: Path, model: Callable[[], nn.Module]
) -> None:
    wrong = Planted(torch.ops.aten.tanh_backward.default, lambda gradient, y: gradient.clone())
    inputs = (torch.randn(4, 6, requires_grad=True),)
    report = debug_run(model().eval(), inputs, root=tmp_path, options=DebugOptions(backend=wrong))
    diff = report.kernel_diff
    assert report.status == "fail" and diff is not None and diff.gradients and diff.culprit is not None
    assert diff.culprit.operation == "aten.tanh_backward.default"
    assert "backward" in {graph.stage for graph in report.graphs}


class Chooses(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x).argmax(-1)


@pytest.mark.parametrize(("model", "why"), [(WithoutWeights(), "requires_grad"), (Chooses(), "no output")])
def test_that_there_is_no_backward_pass_is_said_once(tmp_path: Path, model: nn.Module, why: str) -> None:
    report = run(tmp_path, model, gradients=True, backend="aot_eager")
    assert report.kernel_diff is not None and not report.kernel_diff.gradients
    (note,) = [
        one for one in (*report.notes, *report.kernel_diff.notes) if one.startswith("only the forward")
    ]
    assert why in note


def test_without_gradients_asked_for_nothing_is_said_of_them(tmp_path: Path) -> None:
    report = run(tmp_path, WithoutWeights(), gradients=False, compare=False)
    assert not [one for one in report.notes if one.startswith("only the forward")]


def test_a_backend_that_leaves_a_graph_to_eager_does_not_pass(tmp_path: Path) -> None:
    report = run(tmp_path, gradients=True, backend=FORWARD_ONLY)
    assert report.kernel_diff is not None and report.kernel_diff.verdict == "not proven"
    assert report.status == "fail" and report.summary.kernel_diff_passed is None and not report.failures
    assert "nothing is proven of it" in phrases.headline(report) and "backward" in phrases.headline(report)


def test_a_file_in_the_place_of_the_folder_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("")
    with pytest.raises(DiskError, match="root") as raised:
        run(tmp_path / "root")
    assert "--root" in str(raised.value.fix)


def test_a_model_that_fails_by_itself_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="fails its own forward"):
        run(tmp_path / "root", nn.Linear(3, 3))
    assert not (tmp_path / "root").exists()


def test_without_the_packages_for_pictures_there_are_none_and_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    report = run(tmp_path)
    assert not report.failures and any("vl_convert" in note for note in report.notes)
    assert not any(one.path.endswith("heatmaps.png") for one in report.artifacts)


def test_a_model_of_which_nothing_is_compiled_is_no_pass(tmp_path: Path) -> None:
    class Skipped(nn.Module):
        @torch.compiler.disable
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    report = run(tmp_path, Skipped(), backend="aot_eager")
    assert report.status == "fail" and "made no graph" in report.failures[0].message
    assert report.summary.kernel_diff_passed is None


def test_a_torch_that_cannot_be_observed_is_debugged_without_guards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamo, "is_observable", lambda: False)
    report = run(tmp_path, compare=False)
    assert report.status == "pass" and report.guards is None and report.summary.total_graphs == 1
    assert any("guards and breaks are not known" in note for note in report.notes)


def test_a_verdict_that_was_asked_for_and_not_reached_is_no_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = DiffReport(Report(status="error", target="mock", model="Net"), "not compared", ())
    monkeypatch.setattr(_Run, "_compared", lambda *given: nothing)
    report = run(tmp_path)
    assert report.kernel_diff is not None and report.kernel_diff.verdict == "not compared"
    assert report.status == "fail" and "nothing could be compared" in report.failures[0].message


class Warns(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.sin()
        time.time()
        return y.cos()


def test_what_torch_warns_of_is_a_note_and_no_line_of_the_log(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    report = run(tmp_path, Warns(), compare=False)
    found = [note for note in report.notes if note.startswith("torch warns: ")]
    assert len(found) == len(set(found)) and (not found or "time" in found[0])
    assert not [one for one in recwarn.list if "time" in str(one.message)]


def test_a_warning_of_somebody_else_is_shown_as_ever(recwarn: pytest.WarningsRecorder) -> None:
    notes: list[str] = []
    with kept_as_notes(notes):
        warnings.warn("mine", UserWarning, stacklevel=1)
        for _ in range(2):
            warnings.warn_explicit("torch's", UserWarning, str(Path(torch.__file__).parent / "x.py"), 1)
    assert notes == ["torch warns: torch's"] and [str(one.message) for one in recwarn.list] == ["mine"]


def test_every_graph_is_a_line_of_progress(tmp_path: Path) -> None:
    said: list[str] = []
    options = DebugOptions(backend="aot_eager")
    debug_run(
        Net().eval(),
        (torch.randn(2, 6),),
        root=tmp_path,
        options=options,
        watch=lambda event: said.append(text_of(event) or ""),
    )
    assert "graph_0: backward graph of" in "\n".join(said)
    assert [line for line in said if line.startswith("compiled Net.forward: 2 operations")]


def test_a_second_run_of_a_model_is_no_recompilation(tmp_path: Path) -> None:
    model = Net().eval()
    found = [run(tmp_path, model, backend=name, compare=False) for name in ("mock", "aot_eager", "mock")]
    assert [one.summary.recompilations for one in found] == [0, 0, 0]
