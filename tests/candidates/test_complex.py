"""Complex numbers have a truth: complex128."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from torchport.parity.judge import judge
from torchport.runs.report import Report
from torchport.testing import compare_gradients, compare_models
from torchport.trace.residual import residual

COMPARISONS = pytest.mark.parametrize("compare", [compare_models, compare_gradients])


class Spectrum(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor, self.linear = factor, nn.Linear(64, 64)
        self.filter = nn.Parameter(torch.randn(33, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.rfft(self.linear(x), norm="forward") * self.filter * self.factor


class Magnitudes(nn.Module):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.spectrum = Spectrum(factor)

    def forward(self, x: Tensor) -> Tensor:
        return self.spectrum(x).abs()


class ByAProduct(Spectrum):
    """The same transform by a product with its matrix."""

    def forward(self, x: Tensor) -> Tensor:
        turns = torch.outer(torch.arange(64).double(), torch.arange(33).double()) / 64 * 2 * torch.pi
        real, imaginary = turns.cos().to(x), -turns.sin().to(x)
        y = self.linear(x)
        return torch.complex(y @ real, y @ imaginary) / 64 * self.filter


@COMPARISONS
@pytest.mark.parametrize("kind", [Spectrum, Magnitudes])
def test_a_small_scale_in_a_complex_layer_is_found(
    compare: Callable[..., Report], kind: type[nn.Module]
) -> None:
    torch.manual_seed(0)
    model, candidate, x = kind(), kind(1 + 1e-5), torch.randn(64, 64)
    candidate.load_state_dict(model.state_dict())
    report = compare(model, candidate, x, explain=False)
    assert not report.passed and not any("no float64 truth" in note for note in report.notes)
    assert compare(model, copy.deepcopy(model), x).passed


@COMPARISONS
def test_an_honest_transform_passes(compare: Callable[..., Report]) -> None:
    torch.manual_seed(0)
    model, candidate, x = Spectrum(), ByAProduct(), torch.randn(64, 64)
    candidate.load_state_dict(model.state_dict())
    assert compare(model, candidate, x, explain=False).passed


def test_complex_elements_are_judged_among_their_like() -> None:
    torch.manual_seed(0)
    truth = torch.randn(8, 64, dtype=torch.complex128)
    truth[:, :32] *= 1e-6
    golden = truth.to(torch.complex64)
    candidate = golden.clone()
    candidate[:, 7:11] *= 1 + 1e-3j
    metrics, verdict = judge(golden, candidate, truth)
    assert not verdict.passed and metrics.noise is not None and metrics.noise.bin is not None
    assert metrics.noise.bin.high < 1e-3
    assert judge(golden, golden * (1 + 1e-7j), truth)[1].passed


def test_the_distance_of_a_complex_value_is_zero_where_it_is_not_finite() -> None:
    golden = torch.tensor([1 + 1j, complex("inf"), complex("nan")], dtype=torch.complex64)
    truth = torch.tensor([1 + 1.5j, 1, 2], dtype=torch.complex128)
    assert torch.equal(residual(golden, truth), torch.tensor([0.5j, 0, 0], dtype=torch.complex64))  # type: ignore[arg-type]
