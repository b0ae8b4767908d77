"""Numbers and other plain values that a model returns are compared, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.runs.report import Report

from .planted import Planted

aten: Any = torch.ops.aten
RIGHT: dict[str, Any] = {
    "scale": 0.5,
    "count": 3,
    "is_done": True,
    "kind": "mean",
    "nothing": None,
    "large": 2**70,
    "phase": 1 + 2j,
}


class Numbers(nn.Module):
    """Returns a tensor and plain values, of which the one that is compiled may return others."""

    def __init__(self, other: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.linear, self.other = nn.Linear(8, 8), other or {}

    def forward(self, x: Tensor) -> Any:
        return {"x": self.linear(x), **RIGHT, **(self.other if torch.compiler.is_compiling() else {})}


class Mean(nn.Module):
    """Returns a number that kernels compute."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: Tensor) -> Any:
        y = self.linear(x)
        return y, y.square().mean().item()


def honest(bias: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return bias + (a.flip(1) @ b.flip(0))


def compared(model: nn.Module, kernel: Callable[..., Any] = honest, width: int = 8) -> Report:
    torch.manual_seed(0)
    config = ComparisonConfig(gradients=False)
    backend = Planted(aten.addmm.default, kernel)
    given = torch.randn(32, width)
    return (
        KernelDiffHarness(model, given, model_name="model", test_backend=backend, config=config)
        .compare()
        .report
    )


def test_plain_values_of_all_kinds_that_are_the_same_pass() -> None:
    report = compared(Numbers())
    assert report.status == "pass", (report.first_divergence, report.stopped)


@pytest.mark.parametrize(
    ("name", "other", "said"),
    [
        ("scale", 0.51, "times as far from the float64 truth as eager PyTorch"),
        ("count", 4, "100.0 % of the elements differ"),
        ("is_done", False, "100.0 % of the elements differ"),
        ("phase", 1 + 2.1j, "100.0 % of the elements are outside"),
        ("kind", "sum", "'sum' at ['kind']"),
        ("nothing", 0, "int at ['nothing']"),
        ("large", 2**70 + 1, str(2**70 + 1)),
        ("count", 3.0, "float at ['count']"),
        ("is_done", 1, "int at ['is_done']"),
    ],
)
def test_another_plain_value_is_found(name: str, other: Any, said: str) -> None:
    report = compared(Numbers({name: other}))
    assert report.first_divergence is not None and report.first_divergence.layer == "model"
    assert said in report.first_divergence.reason


def test_a_number_that_kernels_compute_may_be_off_by_their_rounding() -> None:
    torch.manual_seed(0)
    report = compared(Mean(), width=64)
    assert report.status == "pass", report.first_divergence


def test_a_number_that_a_wrong_kernel_computes_is_found_at_the_kernel_and_at_the_end() -> None:
    torch.manual_seed(0)
    report = compared(Mean(), lambda bias, a, b: honest(bias, a, b) * 1.001, width=64)
    assert report.first_divergence is not None and report.first_divergence.layer == "linear/addmm"
    assert not {layer.name: layer for layer in report.layers}["model"].passed


def test_a_model_that_returns_nothing_but_numbers_is_compared() -> None:
    class Only(Mean):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x)[1]

    torch.manual_seed(0)
    assert compared(Only(), width=64).status == "pass"
    report = compared(Only(), lambda bias, a, b: honest(bias, a, b) * 1.001, width=64)
    assert not {layer.name: layer for layer in report.layers}["model"].passed
