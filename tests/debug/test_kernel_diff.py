"""KernelDiff: what it compares, what it leaves out, and what it says when a backend fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.comparing import ComparisonConfig
from torchport.debug.internals.needs import missing
from torchport.debug.kernel_diff.diff_report import DiffReport
from torchport.debug.kernel_diff.harness import KernelDiffHarness, split_inputs
from torchport.debug.tree import ArtifactTree
from torchport.errors import CompileError, UsageError
from torchport.report.formats import open_run, renderer
from torchport.runs.report import Report

from .planted import Planted, Rounding

aten: Any = torch.ops.aten
FORWARD = ComparisonConfig(gradients=False)


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Any:
        return self.second(torch.tanh(self.first(x)))


class Broken(nn.Module):
    """A model of three graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        x = self.first(x).sin()
        torch._dynamo.graph_break()
        x = self.second(x).cos()
        torch._dynamo.graph_break()
        return self.third(x).tanh()


def compared(model: nn.Module, given: Any, backend: Any, config: ComparisonConfig = FORWARD) -> Report:
    return KernelDiffHarness(model, given, test_backend=backend, config=config).compare().report


def test_honest_kernels_pass_with_a_row_for_each_node_module_and_gradient() -> None:
    report = compared(Small(), torch.randn(32, 8), Rounding(), ComparisonConfig())
    assert report.status == "pass" and report.first_divergence is None
    names = [layer.name for layer in report.layers]
    for name in ("first/addmm", "first", "forward graph/tanh", "second", "forward graph", "backward graph"):
        assert name in names
    for name in ("first.weight", "second.bias", "input 0", "backward of second/mm", "Small"):
        assert name in names
    assert names[-1] == "Small" and report.outputs is not None
    assert Report.from_json(report.to_json()) == report


@pytest.mark.parametrize("backend", ["eager", "aot_eager", Planted(), lambda module, inputs: module.forward])
def test_a_backend_that_runs_eager_proves_nothing(backend: Any) -> None:
    report = compared(Small(), torch.randn(4, 8), backend)
    assert report.status == "error" and not report.passed
    assert report.stopped is not None and report.stopped.startswith("no kernel ran")


def test_a_backend_that_says_that_it_runs_no_kernels_is_believed() -> None:
    backend = Rounding()
    backend.runs_kernels = False  # type: ignore[attr-defined]
    assert compared(Small(), torch.randn(4, 8), backend).status == "error"


@pytest.mark.parametrize("gives", [lambda y: y.argmax(-1), lambda y: y.detach()])
def test_that_no_output_can_be_differentiated_is_a_note(gives: Callable[[Tensor], Tensor]) -> None:
    class Gives(Small):
        def forward(self, x: Tensor) -> Any:
            return gives(super().forward(x))

    report = compared(Gives(), torch.randn(32, 8), Rounding(), ComparisonConfig())
    assert "only the forward pass: no output of the model can be differentiated" in report.notes


def addmm(bias: Tensor, a: Tensor, b: Tensor) -> Any:
    return bias + (a.flip(1) @ b.flip(0))


def test_a_graph_that_eager_computes_is_not_proven_whatever_the_others_are() -> None:
    forward_only = Planted(aten.addmm.default, addmm)
    diff = KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=forward_only).compare()
    assert diff.verdict == "not proven" and diff.status == "error" and not diff.passed
    stopped = "eager PyTorch computed every operation of graph 0 backward: nothing is proven of it"
    assert diff.report.stopped == stopped and diff.report.first_divergence is None


@pytest.mark.parametrize(
    "kernel",
    [
        lambda gradient, y: aten.tanh_backward(gradient, y) * 1,
        lambda gradient, y: aten.tanh_backward(gradient, y).mul_(1),
        lambda gradient, y: gradient * (1 - y * y),
        lambda gradient, y: torch.from_numpy(gradient.numpy() * (1 - y.numpy() ** 2)),
    ],
    ids=["more than eager", "in place", "other operations", "not dispatched"],
)
def test_a_graph_with_one_kernel_of_the_backends_is_not_taken_for_eagers(kernel: Any) -> None:
    """Although all else in it is eager PyTorch's, bit by bit."""

    class Many(Small):
        def forward(self, x: Tensor) -> Any:
            y = super().forward(x)
            for _ in range(12):
                y = y.sin()
            return y

    backend = Planted(aten.tanh_backward.default, kernel)
    backend.kernels[aten.addmm.default] = addmm
    diff = KernelDiffHarness(Many(), torch.randn(4, 8), test_backend=backend).compare()
    assert diff.verdict == "pass", (diff.report.stopped, diff.report.first_divergence)


def test_that_eager_computed_is_not_said_of_operations_with_other_arguments() -> None:
    """By a fault that no rule sees: only operations of eager PyTorch ran, but not as the graph asks for them."""
    backend = Planted(aten.elu.default, lambda x, alpha: aten.elu(x, 0.1 * (1 + 1e-7)))
    model = nn.Sequential(*(nn.Tanh() for _ in range(16)), nn.ELU(0.1))
    diff = KernelDiffHarness(model, torch.randn(16, 16), test_backend=backend, config=FORWARD).compare()
    said = str(diff.report.stopped)
    assert diff.verdict == "not proven" and "16 of 17 operations gave bit by bit" in said
    assert "eager PyTorch computed" not in said


def failing_on(number: int, what: Callable[[], Any]) -> Planted:
    """A backend that does something else when it is given a graph with cos in it, as graph 1 of `Broken` has."""

    class Failing(Rounding):
        def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            if any(node.target is aten.cos.default for node in module.graph.nodes):
                what()
            return super().compile(module, inputs)

    return Failing()


def test_what_was_compared_before_a_backend_raises_is_reported() -> None:
    def refuse() -> None:
        raise RuntimeError("no cosine here")

    report = compared(Broken(), torch.randn(4, 8), failing_on(1, refuse))
    names = {layer.name for layer in report.layers if layer.own is not None}
    assert {"graph_0 first/addmm", "graph_2 third/addmm", "graph_0 forward graph/sin"} <= names
    assert report.status == "error" and "no cosine here" in str(report.stopped)
    assert not any("second" in name for name in names)


def test_a_backend_that_hangs_is_given_up_and_the_rest_is_reported() -> None:
    config = ComparisonConfig(gradients=False, timeout_s=8.0)
    start = time.monotonic()
    report = compared(Broken(), torch.randn(4, 8), failing_on(1, lambda: time.sleep(40)), config)
    assert time.monotonic() - start < 35
    assert report.status == "error" and "took more than 8 s" in str(report.stopped)
    assert any(layer.name == "graph_0 first/addmm" and layer.own is not None for layer in report.layers)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda value: value[:-1], "shape [3, 16] where [4, 16] was expected"),
        (lambda value: value.double(), "dtype float64 where float32 was expected"),
        (lambda value: None, "NoneType where a tensor was expected"),
        (lambda value: value.to("meta"), "meta"),
    ],
)
def test_a_value_of_another_form_is_a_finding(wrong: Any, said: str) -> None:
    class Wrong(Planted):
        def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            names = [str(node) for node in module.graph.output_node().args[0]]  # type: ignore[union-attr]

            def run(*given: Any) -> Any:
                found = module(*given)
                return [wrong(one) if name == "tanh" else one for name, one in zip(names, found, strict=True)]

            return run

    report = compared(Small(), torch.randn(4, 8), Wrong())
    assert report.status == "fail" and report.first_divergence is not None
    assert report.first_divergence.layer == "forward graph/tanh"
    assert said in report.first_divergence.reason


def test_another_number_of_values_is_a_finding() -> None:
    class Fewer(Planted):
        def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            return lambda *given: module(*given)[:-1]

        def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            return module.forward

    report = compared(Small(), torch.randn(4, 8), Fewer())
    assert report.status == "fail" and "values where" in str(report.first_divergence)


def test_nan_is_blamed_on_the_node_that_makes_it() -> None:
    backend = Planted(aten.tanh.default, lambda x: aten.tanh(x) * torch.nan)
    report = compared(Small(), torch.randn(4, 8), backend)
    assert report.first_divergence is not None and report.first_divergence.layer == "forward graph/tanh"
    by_name = {layer.name: layer for layer in report.layers}
    assert by_name["second/addmm_1"].passed and "NaN" in str(by_name["second/addmm_1"].uncompared)


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.norm = nn.Dropout(0.5), nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Any:
        return self.norm(self.drop(x).exp())


def test_random_numbers_are_the_backends_and_all_else_is_compared() -> None:
    backend = Planted(aten.exp.default, lambda x: aten.exp2(x * 1.4426950408889634))
    backend.kernels[aten.native_dropout_backward.default] = lambda grad, mask, scale: grad * mask * scale
    model = Noisy()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    report = compared(model, torch.randn(64, 8), backend, ComparisonConfig())
    assert report.status == "pass", report.first_divergence
    (left_out,) = [note for note in report.notes if "random" in note]
    assert left_out.startswith("1 operation is not compared")
    assert any(layer.type.startswith("aten._native_batch_norm") for layer in report.layers)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@dataclass
class Result:
    logits: Tensor
    hidden: list[Tensor]


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.linear = nn.Embedding(10, 8), nn.Linear(8, 8)

    def forward(self, ids: Tensor, mask: Tensor | None = None, *, scale: float = 1.0) -> dict[str, Any]:
        hidden = self.embed(ids)
        hidden = hidden if mask is None else hidden * mask[..., None]
        return {"out": (self.linear(hidden) * scale,), "ids": ids + 1, "is_large": hidden > 0}


@pytest.mark.parametrize(
    "given",
    [
        {"ids": torch.arange(6).view(2, 3), "mask": torch.ones(2, 3)},
        ((torch.arange(6).view(2, 3),), {"scale": 0.5}),
        [torch.arange(6).view(2, 3), torch.ones(2, 3)],
    ],
)
def test_inputs_by_name_and_nested_outputs_of_any_dtype(given: Any) -> None:
    report = compared(Nested(), given, Rounding(), ComparisonConfig())
    assert report.status == "pass", (report.first_divergence, report.stopped)
    assert {"embed.weight", "linear.weight"} <= {layer.name for layer in report.layers}


def test_inputs_that_are_no_inputs_are_refused() -> None:
    with pytest.raises(UsageError):
        split_inputs(3.0)


@pytest.mark.parametrize("backend", ["no_such_backend", 7])
def test_a_backend_that_is_none_is_refused(backend: Any) -> None:
    with pytest.raises(UsageError, match="TP1020"):
        KernelDiffHarness(Small(), torch.randn(4, 8), test_backend=backend)


def test_a_model_that_raises_cannot_be_captured() -> None:
    class Raising(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x @ x

    with pytest.raises(CompileError, match="TP1021"):
        compared(Raising(), torch.randn(2, 3), Planted())


def test_several_runs_have_a_spread_and_a_compilation_is_kept() -> None:
    class Varying(Planted):
        compiled = 0

        def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            self.compiled += 1
            return super().compile(module, inputs)

    backend = Varying(aten.tanh.default, lambda x: aten.tanh(x) + 1e-3 * torch.randn(()))
    torch.manual_seed(1)
    harness = KernelDiffHarness(
        Small(), torch.randn(4, 8), test_backend=backend, config=ComparisonConfig(gradients=False, runs=3)
    )
    found = harness.compare()
    assert len(found.runs) == 3 and not found.passed
    assert found.variance["forward graph/tanh"].largest > 0
    assert found.variance["first/addmm"].deviation == 0.0
    assert "3 runs" in found.summary()
    compiled = backend.compiled
    harness.compare()
    assert backend.compiled == compiled


def test_fixed_tolerances_and_an_allowed_mismatch_take_the_place_of_the_noise_floor() -> None:
    def one_off(x: Tensor) -> Any:
        result = aten.tanh(x).clone()
        result.view(-1)[5] += 0.01
        return result

    backend = Planted(aten.tanh.default, one_off)
    given = torch.randn(16, 8)
    strict = compared(Small(), given, backend, ComparisonConfig(gradients=False, atol=1e-4))
    assert strict.first_divergence is not None and strict.first_divergence.layer == "forward graph/tanh"
    lax = ComparisonConfig(gradients=False, atol=1e-4, allowed_mismatch=10.0)
    assert compared(Small(), given, backend, lax).first_divergence is None


class Cancelling(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x * y - 1.0


def test_a_product_that_is_not_rounded_before_it_is_added_to_is_right_where_kernels_do_so() -> None:
    class FusedMultiplyAdd(Planted):
        def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            def run(*given: Tensor) -> Any:
                x, y = given
                product = x.double() * y.double()
                return [value.float() for value in (product, product - 1.0)][-len(names) :]

            names = list(module.graph.output_node().args[0])  # type: ignore[arg-type]
            return run

    x = torch.rand(4096) + 0.5
    given = (x, 1 / x)
    for keeps_digits, status in ((None, "fail"), (True, "pass")):
        config = ComparisonConfig(gradients=False, keeps_digits=keeps_digits)
        report = compared(Cancelling(), given, FusedMultiplyAdd(), config)
        assert report.status == status, report.first_divergence
    assert any("together with what it reads" in str(layer.reason) for layer in report.layers)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DiffReport]:
    torch.manual_seed(0)
    out = tmp_path_factory.mktemp("kept")
    backend = Planted(aten.tanh.default, lambda x: 1.001 * aten.tanh(x))
    harness = KernelDiffHarness(
        Small(), torch.randn(32, 8), model_name="small", test_backend=backend, config=FORWARD
    )
    return out, harness.compare(generate_visualizations=True, out=out)


def test_a_report_that_was_kept_is_drawn_as_that_of_a_port(kept: tuple[Path, DiffReport]) -> None:
    out, found = kept
    assert found.report.model == "small" and "forward graph/tanh" in found.summary()
    for name in ("text", "html", "markdown", "junit", "sarif"):
        assert "forward graph/tanh" in renderer(name)(open_run(out))
    svg, png = found.pictures
    assert svg.read_text().startswith("<svg") and png.read_bytes().startswith(b"\x89PNG")
    assert svg.parent == out / "visualizations" and (out / "index.json").is_file()


def test_pictures_go_to_the_tree_of_a_session(tmp_path: Path) -> None:
    tree = ArtifactTree(tmp_path / "tree", "run")
    harness = KernelDiffHarness(
        Small(), torch.randn(4, 8), test_backend=Rounding(), config=FORWARD, tree=tree
    )
    pictures = harness.compare(generate_visualizations=True).pictures
    assert pictures and all(path.parent == tmp_path / "tree" / "visualizations" for path in pictures)


def test_another_backend_may_be_the_reference() -> None:
    def harness(reference: Any, backend: Any) -> Report:
        made = KernelDiffHarness(
            Small(), torch.randn(32, 8), reference_backend=reference, test_backend=backend, config=FORWARD
        )
        return made.compare().report

    wrong = Planted(aten.tanh.default, lambda x: 1.001 * aten.tanh(x))
    found = harness(Rounding(), wrong)
    assert found.first_divergence is not None and found.first_divergence.layer == "forward graph/tanh"
    assert harness(Planted(), Rounding()).status == "pass"
    assert "the reference is planted, not eager PyTorch" in found.notes


def test_what_is_needed_of_torch_is_there() -> None:
    assert missing() == []
