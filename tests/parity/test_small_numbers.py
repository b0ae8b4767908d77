"""Small numbers are judged at their own scale, also if they are few, or have no truth."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from torchport.parity.judge import allowance, judge, judge_by
from torchport.parity.metrics import compare
from torchport.parity.tolerance import NoiseFloor
from torchport.runs.report import Report
from torchport.testing import compare_gradients, compare_models


@pytest.mark.parametrize("factor", [1.0002, 1.01, 1.019])
def test_one_small_number_that_is_wrong_fails(factor: float) -> None:
    golden = torch.tensor([5e-4])
    assert judge(golden, golden * (1 + 1e-7), golden.double())[1].passed
    assert not judge(golden, golden * factor, golden.double())[1].passed


def test_few_tiny_numbers_are_not_zero() -> None:
    golden = torch.rand(8) * 1e-6
    assert not judge(golden, 0 * golden, golden.double())[1].passed


def test_few_small_elements_do_not_hide_beside_many_large_ones() -> None:
    torch.manual_seed(0)
    golden = torch.cat([torch.randn(4096), torch.randn(12) * 1e-6])
    candidate, truth = golden.clone(), golden.double() * (1 + 1e-8)
    candidate[-12:] *= 3
    assert not judge(golden, candidate, truth)[1].passed


def test_one_element_among_few_that_cancelled_is_no_false_alarm() -> None:
    """Eager PyTorch is right at it by luck, and as wrong as the others are elsewhere."""
    golden = torch.tensor([1.0, -0.7, 0.4, 1e-6])
    truth = golden.double() + torch.tensor([6e-8, -4e-8, 3e-8, 1e-12], dtype=torch.float64)
    candidate = golden.clone()
    candidate[3] += 1e-7
    assert judge(golden, candidate, truth)[1].passed
    candidate[3] += 1e-5
    assert not judge(golden, candidate, truth)[1].passed


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [1e-3, 1e-9, 1e-20])
def test_without_a_truth_small_numbers_are_judged_at_their_scale(dtype: torch.dtype, scale: float) -> None:
    torch.manual_seed(0)
    golden = (torch.randn(64, dtype=torch.float64) * scale).to(dtype)
    rtol = compare(golden, golden).rtol
    assert judge(golden, golden * (1 + rtol / 2), None)[1].passed
    assert not judge(golden, golden * 3, None)[1].passed
    assert not judge(golden, 0 * golden, None)[1].passed


def test_in_float64_small_numbers_do_not_hide_beside_large_ones() -> None:
    torch.manual_seed(0)
    golden = torch.randn(8, 64, dtype=torch.float64)
    golden[:, :32] *= 1e-9
    candidate = golden.clone()
    candidate[:, :32] *= 2
    assert not judge(golden, candidate, None)[1].passed
    assert judge(golden, golden * (1 + 1e-8), None)[1].passed


def test_what_cancelled_in_float64_is_judged_by_what_float32_loses_there() -> None:
    torch.manual_seed(0)
    golden = torch.randn(64, dtype=torch.float64) * 1e-17
    candidate = torch.randn(64, dtype=torch.float64) * 1e-17
    coarser = torch.randn(64, dtype=torch.float64) * 1e-8
    assert not judge_by(NoiseFloor(), golden, candidate, None)[1].passed
    assert judge_by(NoiseFloor(), golden, candidate, None, coarser)[1].passed
    assert not judge_by(NoiseFloor(), golden, candidate + 1e-13, None, coarser)[1].passed


def test_a_verdict_from_metrics_alone_is_not_kinder() -> None:
    golden = torch.full((64,), 1e-9, dtype=torch.float64)
    assert not NoiseFloor().judge(compare(golden, 3 * golden)).passed
    assert NoiseFloor().judge(compare(golden, golden.clone())).passed


def test_what_an_honest_candidate_may_be_off_by_is_scaled_too() -> None:
    golden = torch.full((64,), 1e-9, dtype=torch.float64)
    assert allowance(golden, None) < 1e-15


class Gate(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.linear, self.factor = nn.Linear(32, 1), factor

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.linear(x.mean(0))) * 1e-3 * self.factor


class Gated(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.linear, self.gate = nn.Linear(32, 32), Gate(factor)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.gate(x) * 1e3


class Loss(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.linear, self.factor = nn.Linear(32, 32), factor

    def forward(self, x: Tensor) -> Tensor:
        return (self.linear(x) * 1e-4).pow(2).mean() * self.factor


@pytest.mark.parametrize(("kind", "culprit"), [(Gated, "gate"), (Loss, "Loss")])
def test_a_layer_that_gives_one_small_number_is_not_let_off(kind: type[nn.Module], culprit: str) -> None:
    torch.manual_seed(0)
    model, candidate, x = kind(), kind(1.0002), torch.randn(16, 32)
    candidate.load_state_dict(model.state_dict())
    report = compare_models(model, candidate, x, explain=False)
    assert report.first_divergence is not None and report.first_divergence.layer == culprit
    assert compare_models(model, copy.deepcopy(model), x).passed


class Wave(nn.Module):
    """Its second parameter has gradients of about 1e-9."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.linear, self.factor = nn.Linear(64, 64), factor
        self.shift = nn.Parameter(torch.randn(64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.linear(x) + Scaled.apply(self.shift, self.factor))


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor  # type: ignore[attr-defined]
        return x * 1e-9

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return gradient * (1e-9 * ctx.factor), None  # type: ignore[attr-defined]


def test_a_small_gradient_in_float64_is_not_let_off() -> None:
    torch.manual_seed(0)
    model, candidate = Wave().double(), Wave(3.0).double()
    candidate.load_state_dict(model.state_dict())
    report = compare_gradients(model, candidate, torch.randn(64, 64).double(), explain=False)
    assert report.first_divergence is not None and report.first_divergence.layer == "shift"


class BeforeANorm(nn.Sequential):
    """The gradient of the convolution's bias is 0, and what is computed of it is nothing but rounding."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())


class InAnotherOrder(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        flipped = nn.functional.conv2d(x.flip(-1), self.weight.flip(-1), self.bias)
        return flipped.flip(-1)


def honest(model: BeforeANorm, x: Tensor) -> Report:
    candidate = copy.deepcopy(model)
    candidate[0].__class__ = InAnotherOrder
    return compare_gradients(model, candidate, x, explain=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_gradients_that_are_nothing_but_rounding_are_no_false_alarm(dtype: torch.dtype, seed: int) -> None:
    torch.manual_seed(seed)
    model = BeforeANorm().to(dtype)
    assert honest(model, torch.randn(4, 3, 12, 12).to(dtype)).passed
