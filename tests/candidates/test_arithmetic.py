"""Candidates are judged by the arithmetic that they declare, and what they compute in is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from torchport.arithmetic.classes import CLASSES, find_arithmetic
from torchport.arithmetic.emulation import Emulated
from torchport.errors import ParityError, UsageError
from torchport.runs.report import Report
from torchport.testing import assert_parity, compare_gradients, compare_models, describe

pytestmark = pytest.mark.slow


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(64, 96, 3, padding=1), nn.LayerNorm(96)
        self.head = nn.Linear(96, 128)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(torch.relu(self.conv(x)).mean((2, 3))))


def models() -> tuple[Net, Tensor]:
    torch.manual_seed(0)
    return Net().eval(), torch.randn(8, 64, 12, 12)


def computing_in(name: str, model: nn.Module) -> nn.Module:
    """A copy whose layers compute in a class of arithmetic."""
    candidate, arithmetic = copy.deepcopy(model), find_arithmetic(name)
    for layer in candidate.children():

        def forward(x: Tensor, run: Callable[[Tensor], Tensor] = layer.forward) -> Tensor:
            with Emulated(arithmetic):
                return run(x)

        layer.forward = forward  # type: ignore[method-assign]
    return candidate


def named(report: Report) -> dict[str, str | None]:
    return {layer.name: layer.arithmetic for layer in report.layers if layer.arithmetic is not None}


@pytest.mark.parametrize("name", ["tf32", "bf16_products", "fp16_sums", "bf16_sums"])
def test_a_coarser_arithmetic_fails_and_is_named(name: str) -> None:
    model, x = models()
    report = compare_models(model, computing_in(name, model), x, explain=False)
    assert not report.passed and named(report)["conv"] == name and named(report)["head"] == name
    assert find_arithmetic(name).text in describe(report)


@pytest.mark.parametrize("name", [one.name for one in CLASSES if one.name != "eager"])
def test_a_candidate_that_declares_its_arithmetic_passes(name: str) -> None:
    model, x = models()
    assert compare_models(model, computing_in(name, model), x, arithmetic=name).passed
    assert compare_gradients(model, computing_in(name, model), x, arithmetic=name).passed


class ByTf32(torch.autograd.Function):
    """A product of which all operands are TF32, also on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        with Emulated(find_arithmetic("tf32")):
            return x @ weight.T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        with Emulated(find_arithmetic("tf32")):
            return gradient @ weight, gradient.T @ x


class Tf32Linear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return ByTf32.apply(x, self.weight) + self.bias


def test_gradients_of_a_candidate_that_declares_its_arithmetic_pass() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 10))
    candidate, x = copy.deepcopy(model), torch.randn(8, 32)
    candidate[0].__class__ = candidate[2].__class__ = Tf32Linear
    assert not compare_gradients(model, candidate, x, explain=False).passed
    report = compare_gradients(model, candidate, x, explain=False, arithmetic="tf32")
    assert report.passed and named(report)["2.weight"] == "tf32"


class UnderAutocast(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            found: Tensor = super().forward(x)
        return found


def test_gradients_of_a_candidate_under_autocast_are_those_of_its_arithmetic() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 10))
    candidate = UnderAutocast(*copy.deepcopy(model))
    x = torch.randn(8, 32)
    assert not compare_gradients(model, candidate, x, explain=False).passed
    assert compare_gradients(model, candidate, x, explain=False, arithmetic="bf16_sums").passed


class ScaledOnTheWayBack(torch.autograd.Function):
    """A tensor as it is, whose gradient is computed in float32, whatever the dtype."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        thirds = torch.full((gradient.shape[-1],), 1 / 3, dtype=torch.float32)
        return (gradient.float() * thirds).to(gradient.dtype)


class Scaled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = ScaledOnTheWayBack.apply(x)
        return found


def test_the_truth_of_gradients_is_float64_also_if_a_backward_pass_asks_for_float32() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), Scaled())
    report = compare_gradients(model, copy.deepcopy(model), torch.randn(64, 32), explain=False)
    (noise,) = (layer.own.noise for layer in report.layers if layer.name == "1" and layer.own)
    assert report.passed and noise is not None and noise.floor_rms > 0


def test_sums_in_another_order_pass_by_default_and_not_as_eager() -> None:
    model, x = models()
    candidate = computing_in("float32", model)
    report = compare_models(model, candidate, x)
    assert report.passed and set(named(report).values()) == {"float32"}
    assert not compare_models(model, candidate, x, arithmetic="eager", explain=False).passed


def test_a_fault_is_not_excused_by_a_coarser_arithmetic() -> None:
    model, x = models()
    candidate = computing_in("tf32", model)
    candidate.head.weight.data[3] *= 1.1  # type: ignore[union-attr, index, operator]
    report = compare_models(model, candidate, x, arithmetic="tf32")
    assert not report.passed and report.first_divergence is not None
    assert report.first_divergence.layer == "head" and named(report).get("head") != "tf32"


def test_a_wrong_epsilon_is_no_arithmetic() -> None:
    model, x = models()
    candidate = copy.deepcopy(model)
    candidate.norm.eps = 1.5e-5
    report = compare_models(model, candidate, x)
    assert not report.passed and "norm" not in named(report)
    assert report.first_divergence is not None and report.first_divergence.suggestions[0].kind == "eps"


def test_an_arithmetic_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    model, x = models()
    with pytest.raises(UsageError, match="there is no arithmetic 'half'"):
        assert_parity(model, model, x, arithmetic="half")


class Ill(nn.Module):
    """Loses digits by itself."""

    offset = 3e5

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(64, 64), nn.LayerNorm(64)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm((self.linear(x) + self.offset) - self.offset)


class Better(Ill):
    def forward(self, x: Tensor) -> Tensor:
        return self.norm(((self.linear(x).double() + self.offset) - self.offset).float())


class Worse(Ill):
    offset = 1e7


def ill(kind: type[Ill]) -> tuple[Ill, Ill, Tensor]:
    torch.manual_seed(0)
    model, candidate = Ill().eval(), kind().eval()
    candidate.load_state_dict(model.state_dict())
    return model, candidate, torch.randn(64, 64)


def test_drift_of_an_ill_conditioned_model_is_measured_beside_the_reference() -> None:
    model, candidate, x = ill(Better)
    error = (candidate(x) - model(x)).square().mean().sqrt() / model(x).square().mean().sqrt()
    assert error > 2.5e-4, "the outputs drift beyond half of the digits"
    report = compare_models(model, candidate, x)
    assert report.passed and report.outputs is not None
    assert report.outputs.rule == "drift within 4 times that of eager PyTorch"


def test_drift_that_is_larger_than_the_reference_own_fails() -> None:
    model, candidate, x = ill(Worse)
    with pytest.raises(ParityError):
        assert_parity(model, candidate, x)


def test_an_epsilon_of_the_dtype_stays_that_of_float32_in_the_truth() -> None:
    model, x = nn.Sequential(nn.RMSNorm(64)), torch.randn(32, 64) * 1e-3
    candidate = copy.deepcopy(model)
    candidate[0].eps = torch.finfo(torch.float32).eps
    assert compare_models(model, candidate, x).passed
    candidate[0].eps = 1.3e-7
    report = compare_models(model, candidate, x)
    assert not report.passed and report.first_divergence is not None
    assert report.first_divergence.suggestions[0].kind == "eps"


class OwnEps(nn.Module):
    """Takes its epsilon, and what it fills a mask with, from its dtype."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        facts = torch.finfo(x.dtype)
        normed = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.factor * facts.eps)
        return normed.masked_fill(x > 2e-3, facts.min)


def test_a_model_that_asks_for_the_facts_of_its_dtype_is_given_those_of_float32_in_the_truth() -> None:
    x = torch.randn(64, 64) * 1e-3
    assert compare_models(OwnEps(), OwnEps(), x).passed
    assert not compare_models(OwnEps(), OwnEps(1.001), x, explain=False).passed
    assert torch.finfo(torch.float64).eps == 2.0**-52 and isinstance(torch.finfo(torch.float16), torch.finfo)


class NoDouble(nn.Module):
    """Cannot be run in float64."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype == torch.float64:
            raise TypeError("only float32")
        return x.exp()


def test_a_reference_without_truth_is_said_at_the_top_with_the_count() -> None:
    model = nn.Sequential(nn.Linear(8, 8), NoDouble())
    report = compare_models(model, copy.deepcopy(model), torch.randn(4, 8))
    assert report.passed and report.rule is not None and "no float64 truth" in report.rule
    (note,) = report.notes
    assert note.startswith("no float64 truth is known of 3 of 3 values")


class Running(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1)


class ByProduct(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.ones(x.shape[1], x.shape[1]).triu()


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * 20).softmax(-1)


class ByPowersOfTwo(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scores = x * 20
        powers = torch.exp2((scores - scores.amax(-1, keepdim=True)) * 1.4426950408889634)
        return powers / powers.sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("model", "candidate"), [(Running(), ByProduct()), (Softmax(), ByPowersOfTwo())], ids=["cumsum", "exp2"]
)
def test_other_honest_formulas_pass(model: nn.Module, candidate: nn.Module) -> None:
    x = torch.randn(64, 256)
    assert compare_models(model, candidate, x).passed
    assert not compare_models(model, lambda x: candidate(x) * (1 + 1e-4), x, explain=False).passed


class OnlyOutsideOfModes(nn.Linear):
    """A layer whose code does not run in any class of arithmetic."""

    def forward(self, x: Tensor) -> Tensor:
        if any(isinstance(mode, Emulated) for mode in _get_current_dispatch_mode_stack()):
            raise RuntimeError("no such kernel")
        return super().forward(x)


@pytest.mark.parametrize("compare", [compare_models, compare_gradients])
def test_a_reference_that_cannot_be_emulated_is_said_to_be(compare: Callable[..., Report]) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(OnlyOutsideOfModes(32, 32), nn.GELU())
    candidate, x = nn.Sequential(Tf32Linear(32, 32), nn.GELU()), torch.randn(8, 32)
    candidate.load_state_dict(model.state_dict())
    report = compare(model, candidate, x, explain=False, arithmetic="tf32")
    (note,) = (note for note in report.notes if "the arithmetic tf32" in note)
    assert (
        not report.passed and "cannot be computed in the arithmetic tf32" in note and "no such kernel" in note
    )
    assert not compare(model, copy.deepcopy(model), x, explain=False, arithmetic="tf32").notes
