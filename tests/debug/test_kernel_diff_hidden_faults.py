"""KernelDiff finds faults that no value of a graph shows: what is written, views, dtypes, what only users get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.runs.report import Report

from .planted import Planted, Rounding

aten: Any = torch.ops.aten
FORWARD = ComparisonConfig(gradients=False)


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Any:
        return self.norm(self.linear(x))


class Writing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        y = self.linear(x)
        x.mul_(2)
        return y


class Sine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        return self.linear(torch.sin(x))


def compared(model: nn.Module, given: Any, backend: Any, config: ComparisonConfig = FORWARD) -> Report:
    return KernelDiffHarness(model, given, test_backend=backend, config=config).compare().report


def culprit(report: Report) -> tuple[str, str]:
    assert report.status == "fail" and report.first_divergence is not None
    return report.first_divergence.layer, report.first_divergence.reason


def is_of_aten(module: torch.fx.GraphModule) -> bool:
    return any(isinstance(node.target, torch._ops.OpOverload) for node in module.graph.nodes)


def as_users_get_it(change: Callable[..., Any]) -> Any:
    """A backend with right kernels, of which `change` makes something else in the graphs that Dynamo gives."""

    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        right = Rounding()(module, inputs)
        return right if is_of_aten(module) else lambda *given: change(right, *given)

    return backend


def on_copies(right: Any, *given: Any) -> Any:
    return right(*(one if one.requires_grad else one.clone() for one in given))


def test_what_a_model_writes_is_compared() -> None:
    for config in (FORWARD, ComparisonConfig()):
        report = compared(Norm(), torch.randn(32, 8), Rounding(), config)
        assert report.status == "pass", report.first_divergence
        names = {layer.name for layer in report.layers if layer.own is not None}
        assert {"written norm.running_mean", "written norm.num_batches_tracked"} <= names


@pytest.mark.parametrize("config", [FORWARD, ComparisonConfig()])
def test_buffers_that_are_not_written_back_are_found(config: ComparisonConfig) -> None:
    report = compared(Norm(), torch.randn(32, 8), as_users_get_it(on_copies), config)
    assert culprit(report) == ("written norm.running_mean", "the compiled model does not write to it")


def test_an_input_that_is_not_written_back_is_found() -> None:
    given = torch.randn(32, 8)
    assert compared(Writing(), given, Rounding()).status == "pass"
    assert culprit(compared(Writing(), given, as_users_get_it(on_copies)))[0] == "written input 0"


@pytest.mark.parametrize("is_training", [True, False])
def test_a_parameter_that_is_written_to_is_found_and_put_back(is_training: bool) -> None:
    def spoil(right: Any, *given: Any) -> Any:
        found = right(*given)
        for one in given:
            if one.dim() == 1:
                one.data.mul_(2)
        return found

    model = Sine().train(is_training)
    before = model.linear.bias.detach().clone()
    layer, reason = culprit(compared(model, torch.randn(32, 8), as_users_get_it(spoil)))
    assert layer == "written linear.bias" and "eager PyTorch does not" in reason
    assert torch.equal(model.linear.bias, before)


def test_another_dtype_with_the_right_numbers_is_found_end_to_end() -> None:
    def widened(right: Any, *given: Any) -> Any:
        return [one.double() for one in right(*given)]

    layer, reason = culprit(compared(Sine(), torch.randn(32, 8), as_users_get_it(widened)))
    assert layer == "Sine" and reason == "dtype float64 where float32 was expected"


class Alone(Rounding):
    """A backend that is wrong if few values are asked of it, as one that fuses is."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.change = change

    def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        right = super().compile(module, inputs)
        number = len(module.graph.output_node().args[0])  # type: ignore[arg-type]
        return right if number > 1 else lambda *given: [self.change(one) for one in right(*given)]


def test_another_dtype_is_found_if_only_the_graph_that_is_left_alone_has_it() -> None:
    layer, reason = culprit(compared(Sine(), torch.randn(32, 8), Alone(Tensor.double)))
    assert layer == "forward graph" and reason == "dtype float64 where float32 was expected"


@pytest.mark.parametrize(
    "given",
    [torch.randn(33, 8)[1:], torch.randn(32, 16)[:, ::2], torch.randn(1, 8).expand(32, 8)],
    ids=["within memory", "every second", "expanded"],
)
def test_inputs_stay_the_views_that_they_are(given: Tensor) -> None:
    def wrong(x: Tensor) -> Any:
        is_plain = x.is_contiguous() and x.storage_offset() == 0
        return aten.sin(x) * (1.0 if is_plain else 1.01)

    for config in (FORWARD, ComparisonConfig()):
        report = compared(Sine(), given, Planted(aten.sin.default, wrong), config)
        assert culprit(report)[0] == "forward graph/sin"


def test_the_backward_pass_of_a_model_without_parameters_is_compared() -> None:
    class Plain(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return torch.tanh(x).softmax(-1)

    backend = Planted(aten.tanh_backward.default, lambda gradient, result: gradient.clone())
    report = compared(Plain(), torch.randn(32, 8, requires_grad=True), backend, ComparisonConfig())
    assert culprit(report)[0] == "backward graph/tanh_backward"


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(8, 8), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Any:
        return torch.tanh(self.drop(self.linear(x)))


def test_random_numbers_are_no_excuse_for_a_backend_that_draws_those_of_eager() -> None:
    report = compared(Dropping(), torch.randn(32, 8), Alone(lambda value: value * 1.5))
    assert culprit(report)[0] == "forward graph"


def by_another_generator(x: Tensor, probability: float, train: bool) -> Any:
    kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(7)) >= probability
    return x * kept / (1 - probability), kept


def without_scale(x: Tensor, probability: float, train: bool) -> Any:
    values, kept = aten.native_dropout(x, probability, train)
    return values * (1 - probability), kept


def other_mask(x: Tensor, probability: float, train: bool) -> Any:
    values, kept = aten.native_dropout(x, probability, train)
    return values, ~kept


def test_a_dropout_may_draw_its_own_numbers() -> None:
    backend = Planted(aten.native_dropout.default, by_another_generator)
    report = compared(Dropping(), torch.randn(32, 8), backend, ComparisonConfig())
    assert report.first_divergence is None


@pytest.mark.parametrize("wrong", [without_scale, other_mask])
def test_what_a_dropout_makes_of_what_it_keeps_is_compared(wrong: Any) -> None:
    backend = Planted(aten.native_dropout.default, wrong)
    report = compared(Dropping(), torch.randn(32, 8), backend, ComparisonConfig())
    assert culprit(report)[0] == "drop/native_dropout"


def test_a_model_that_makes_a_tensor_of_numbers_is_captured() -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Any:
            return self.linear(x) * torch.tensor([2.0])

    assert compared(Constant(), torch.randn(32, 8), Rounding()).status == "pass"


def test_a_backend_that_is_wrong_is_not_said_to_run_no_kernel() -> None:
    backend = Planted(aten.sin.default, lambda x: aten.sin(x) * 1.01)
    report = compared(Sine(), torch.randn(32, 8), backend)
    assert culprit(report)[0] == "forward graph/sin" and report.stopped is None


def test_a_backend_cannot_change_what_it_is_held_to() -> None:
    class Changing(Rounding):
        def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
            torch.set_float32_matmul_precision("medium")
            right = super().compile(module, inputs)

            def run(*given: Any) -> Any:
                torch.set_default_dtype(torch.float64)
                return right(*given)

            return run

    report = compared(Sine(), torch.randn(32, 8), Changing())
    assert report.status == "pass", report.first_divergence
    assert torch.get_default_dtype() == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    (note,) = [note for note in report.notes if "for all of torch" in note]
    assert "the default dtype" in note and "the precision of float32 products" in note


def test_autocasting_is_there_under_a_time_limit() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        config = ComparisonConfig(gradients=False, timeout_s=60)
        report = compared(Sine(), torch.randn(32, 8), Rounding(), config)
    assert report.status == "pass", report.first_divergence


def test_other_strides_are_noted() -> None:
    def turned(right: Any, *given: Any) -> Any:
        return [one.t().contiguous().t() for one in right(*given)]

    report = compared(Sine(), torch.randn(32, 8), as_users_get_it(turned))
    assert report.status == "pass"
    assert "output 0 of the compiled model has strides [1, 32], not [8, 1]" in report.notes
