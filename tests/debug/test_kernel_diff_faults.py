"""KernelDiff finds wrong kernels, forward and backward, by node, module and the user's line."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.runs.report import Report

from .planted import Planted

aten = torch.ops.aten


class Mixed(nn.Module):
    """Something of everything that the faults below are planted in."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.query = nn.Linear(16, 16)
        self.out = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        h = self.query(self.norm(x))
        scores = h @ h.transpose(1, 2)
        scores = scores * 0.25
        weights = scores.softmax(-1)
        h = nn.functional.gelu(weights @ h)
        h = self.out(h).relu()
        h = h[:, 1:9]
        result: Tensor = h.mean(1)
        return result


def gelu_by_tanh(x: Tensor, approximate: str = "none") -> Any:
    return aten.gelu(x, approximate="tanh")


def other_eps(x: Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return aten.native_layer_norm(x, shape, weight, bias, 3 * eps)


def other_scale(x: Tensor, scale: Any) -> Any:
    return aten.mul(x, 1.0005 * scale if isinstance(scale, float) else scale)


def not_transposed(x: Tensor) -> Any:
    return x.clone() if x.shape[0] == x.shape[1] else aten.t(x)


def one_further(x: Tensor, dim: int = 0, start: int = 0, end: int = 0, step: int = 1) -> Any:
    return aten.slice(x, dim, start + 1, end + 1, step) if start else aten.slice(x, dim, start, end, step)


def other_axis(x: Tensor, dim: int, half: bool) -> Any:
    return aten._softmax(x, dim - 1, half)


def sum_for_mean(x: Tensor, dim: Any, keepdim: bool = False) -> Any:
    return aten.mean(x, dim, keepdim) * (x.shape[1] / (x.shape[1] - 1))


def relu_without_mask(gradient: Tensor, result: Tensor, threshold: float) -> Tensor:
    return gradient.clone()


def gelu_backward_by_tanh(gradient: Tensor, x: Tensor, approximate: str = "none") -> Any:
    return aten.gelu_backward(gradient, x, approximate="tanh")


def norm_backward_without_mean(
    gradient: Tensor, x: Tensor, shape: Any, mean: Tensor, rstd: Tensor, weight: Any, bias: Any, mask: Any
) -> Any:
    right = aten.native_layer_norm_backward(gradient, x, shape, mean, rstd, weight, bias, mask)
    return gradient * weight * rstd, right[1], right[2]


def softmax_backward_without_sum(gradient: Tensor, result: Tensor, dim: int, dtype: Any) -> Tensor:
    return gradient * result


FAULTS = [
    (aten.gelu.default, gelu_by_tanh, "forward graph/gelu", "nn.functional.gelu(weights @ h)"),
    (aten.native_layer_norm.default, other_eps, "norm/native_layer_norm", "self.query(self.norm(x))"),
    (aten.mul.Tensor, other_scale, "forward graph/mul", "scores * 0.25"),
    (aten.t.default, not_transposed, "query/t", "self.query(self.norm(x))"),
    (aten.slice.Tensor, one_further, "forward graph/slice_1", "h[:, 1:9]"),
    (aten._softmax.default, other_axis, "forward graph/_softmax", "scores.softmax(-1)"),
    (aten.mean.dim, sum_for_mean, "forward graph/mean", "= h.mean(1)"),
    (aten.threshold_backward.default, relu_without_mask, "backward graph/threshold_backward", "relu()"),
    (aten.gelu_backward.default, gelu_backward_by_tanh, "backward graph/gelu_backward", "functional.gelu"),
    (
        aten.native_layer_norm_backward.default,
        norm_backward_without_mean,
        "backward of norm/native_layer_norm_backward",
        "self.query(self.norm(x))",
    ),
    (
        aten._softmax_backward_data.default,
        softmax_backward_without_sum,
        "backward graph/_softmax_backward_data",
        "softmax(-1)",
    ),
]


def compared(model: nn.Module, backend: Planted, config: ComparisonConfig) -> Report:
    harness = KernelDiffHarness(model, torch.randn(2, 16, 16), test_backend=backend, config=config)
    return harness.compare().report


@pytest.mark.parametrize(
    ("operation", "wrong", "layer", "line"), FAULTS, ids=lambda one: getattr(one, "__name__", "")
)
def test_a_wrong_kernel_is_found_by_node_and_line(
    operation: Any, wrong: Callable[..., Any], layer: str, line: str
) -> None:
    model = Mixed()
    with torch.no_grad():
        model.norm.weight.normal_()
        model.norm.bias.normal_()
    config = ComparisonConfig(gradients=layer.startswith("backward"))
    report = compared(model, Planted(operation, wrong), config)
    assert report.status == "fail"
    culprit = report.first_divergence
    assert culprit is not None and culprit.kind == "own"
    assert culprit.layer == layer
    assert culprit.operation is not None and culprit.operation.op == str(operation)
    file, _, number = (culprit.source or "").rpartition(":")
    assert line in linecache.getline(file, int(number))


CAUSES = {
    gelu_by_tanh: "approximate is 'tanh' where the model has 'none'",
    other_eps: "eps is 3e-05 where the model has 1e-05",
    other_scale: "other is 0.2501 where the model has 0.25",
    not_transposed: "t is left out",
    one_further: "self (relu) is rolled by -1 along axis 1",
    other_axis: "dim is 1 where the model has -1",
    relu_without_mask: "self (detach_2) left out",
    gelu_backward_by_tanh: "approximate is 'tanh' where the model has 'none'",
    softmax_backward_without_sum: None,
}


@pytest.mark.parametrize(
    ("operation", "wrong", "layer"),
    [fault[:3] for fault in FAULTS if fault[1] in CAUSES],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_the_cause_is_said_in_words_if_it_was_computed_and_gives_what_the_kernel_gave(
    operation: Any, wrong: Callable[..., Any], layer: str
) -> None:
    torch.manual_seed(0)
    config = ComparisonConfig(gradients=layer.startswith("backward"))
    culprit = compared(Mixed(), Planted(operation, wrong), config).first_divergence
    assert culprit is not None
    texts, expected = [one.text for one in culprit.suggestions], CAUSES[wrong]
    assert (not texts) if expected is None else (expected in texts)
    assert all(one.explains > 0.99 for one in culprit.suggestions)


def test_the_cause_of_one_of_several_results_is_said_in_the_report_that_is_kept(tmp_path: Path) -> None:
    """The second result of a norm is its mean, here with the sign turned."""

    def turned(*args: Any) -> Any:
        out, mean, deviation = aten.native_layer_norm(*args)
        return out, -mean, deviation

    torch.manual_seed(0)
    backend = Planted(aten.native_layer_norm.default, turned)
    given = torch.randn(2, 16, 16)
    harness = KernelDiffHarness(Mixed(), given, test_backend=backend)
    diff = harness.compare(out=tmp_path)
    culprit = diff.report.first_divergence
    assert culprit is not None and culprit.layer == "norm/native_layer_norm"
    (cause,) = culprit.suggestions
    assert "the other sign" in cause.text and cause.text in diff.summary()
    assert cause.text in (tmp_path / "report.json").read_text()


def test_the_wrong_gradients_are_named_beside_the_node() -> None:
    backend = Planted(aten.gelu_backward.default, gelu_backward_by_tanh)
    report = compared(Mixed(), backend, ComparisonConfig())
    failed = {layer.name for layer in report.layers if not layer.passed}
    assert {"backward graph/gelu_backward", "query.weight", "norm.weight", "input 0"} <= failed
    assert not {"out.weight", "forward graph/gelu", "Mixed"} & failed


def test_only_the_wrong_node_and_what_holds_it_fail_by_their_own_error() -> None:
    backend = Planted(aten.native_layer_norm.default, other_eps)
    report = compared(Mixed(), backend, ComparisonConfig(gradients=False))
    failed = [layer.name for layer in report.layers if not layer.passed]
    assert failed[:2] == ["norm/native_layer_norm", "norm"]
    assert not any("/" in name for name in failed[2:])
    chained = {layer.name: layer.chained for layer in report.layers}
    victim = chained["query/addmm"]
    assert victim is not None and victim.max_abs > 0
