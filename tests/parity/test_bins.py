"""Elements are judged among their like: a fault does not hide behind larger numbers, and luck is no floor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from torchport.parity.bins import ENOUGH, Bins, bin_of
from torchport.parity.elements import wrong_elements
from torchport.parity.judge import judge
from torchport.parity.metrics import compare
from torchport.parity.tolerance import NoiseFloor
from torchport.trace.residual import residual


def product(
    rows: int = 64, terms: int = 256, columns: int = 64, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """A product in float32 and its truth."""
    random = torch.Generator().manual_seed(seed)
    a, b = torch.randn(rows, terms, generator=random), torch.randn(terms, columns, generator=random)
    return a @ b, a.double() @ b.double()


def test_a_scale_does_not_hide_behind_a_fill_value() -> None:
    scores, truth = product()
    for fill in (-1e9, -3e38, float(torch.finfo(torch.float32).min)):
        mask = torch.zeros_like(scores).masked_fill(torch.rand_like(scores) < 0.5, fill)
        golden, exact = scores + mask, truth + mask.double()
        assert judge(golden, golden, exact)[1].passed
        wrong = judge(golden, scores * 1.0003 + mask, exact)[1]
        assert not wrong.passed and "elements of magnitude" in (wrong.reason or "")


def test_a_fault_does_not_hide_behind_larger_numbers() -> None:
    y, truth = product()
    golden, exact = torch.cat([y * 1e6, y]), torch.cat([truth * 1e6, truth])
    metrics, verdict = judge(golden, torch.cat([y * 1e6, y * 1.1]), exact)
    assert not verdict.passed and metrics.noise is not None and metrics.noise.bin is not None
    assert metrics.noise.bin.high < 1e3


def test_the_wrong_elements_are_found() -> None:
    y, truth = product()
    y[:, 0] *= 1e6
    truth[:, 0] *= 1e6
    candidate = y.clone()
    candidate[:, 7] *= 1.01
    metrics, verdict = judge(y, candidate, truth)
    assert verdict.bin_limit is not None and metrics.noise is not None and metrics.noise.bin is not None
    distance = residual(y, truth)
    assert distance is not None
    elements = wrong_elements(y, candidate, distance, metrics.noise.bin, verdict.bin_limit)
    assert elements is not None and str(elements).endswith("all at index 7 of axis 1")


def test_few_elements_of_another_magnitude_are_no_false_alarm() -> None:
    """Numbers that cancelled are small by luck, and near the truth by luck: their neighbours are their floor."""
    alarms = 0
    for seed in range(200):
        y, truth = product(rows=16, columns=16, seed=seed)
        random = torch.Generator().manual_seed(seed)
        a, b = torch.randn(16, 256, generator=random), torch.randn(256, 16, generator=random)
        other = sum(a[:, part : part + 32] @ b[part : part + 32] for part in range(0, 256, 32))
        assert isinstance(other, torch.Tensor)
        alarms += not judge(y, other, truth)[1].passed
    assert alarms == 0


def test_an_element_that_strays_into_a_bin_is_no_false_alarm() -> None:
    """It is small by chance, and so is eager PyTorch's error there: its channel is a million times as large."""
    y, truth = product()
    y[:, 0] *= 1e6
    truth[:, 0] *= 1e6
    y[5, 0], truth[5, 0] = 0.25, 0.25 + 1e-6
    candidate = y.clone()
    candidate[5, 0] += 0.5
    assert judge(y, candidate, truth)[1].passed
    candidate[:, 9] += 0.5
    assert not judge(y, candidate, truth)[1].passed


def test_bins_that_are_far_apart_are_not_joined() -> None:
    truth = np.concatenate([np.full(5, 1.0), np.full(100, 1e9)])
    zeros = np.zeros_like(truth)
    bins = Bins()
    bins.add(truth, zeros, zeros, None)
    assert [one.count for one in bins.joined()] == [5, 100]


def test_small_bins_are_joined_with_their_neighbours_and_zeros_with_the_smallest() -> None:
    truth = np.concatenate(
        [np.zeros(500), np.full(10, 1.0), np.full(10, 3.0), np.full(ENOUGH, 10.0), np.full(3, 40.0)]
    )
    bins = Bins()
    bins.add(truth, truth * 0, truth * 0, None)
    assert [one.count for one in bins.joined()] == [500 + 20 + ENOUGH + 3]


@pytest.mark.parametrize("value", [0.0, 1.5e-45, 1e-30, 0.5, 1.0, 2.0, 1e9, 3e38])
def test_an_element_is_within_the_bounds_of_its_bin(value: float) -> None:
    bins = Bins()
    one = np.array([value])
    bins.add(one, one * 0, one * 0, None)
    (found,) = bins.joined()
    assert found.low <= value < found.high or bin_of(one)[0] == 0


def test_a_coarser_arithmetic_is_the_floor_of_its_bins() -> None:
    y, truth = product()
    coarse = y + 1e-4 * torch.randn_like(y)
    candidate = y + 1e-4 * torch.randn_like(y)
    distance = residual(y, truth)
    assert not NoiseFloor().judge(compare(y, candidate, distance)).passed
    assert NoiseFloor().judge(compare(y, candidate, distance, coarser=coarse)).passed
    assert not NoiseFloor().judge(compare(y, y * 1.1, distance, coarser=coarse)).passed


def test_chunks_add_up() -> None:
    y, truth = product()
    distance = residual(y, truth)
    whole, parts = compare(y, y * 1.001, distance), compare(y, y * 1.001, distance, chunk=100)
    assert whole.noise is not None and parts.noise is not None
    assert whole.noise.bin is not None and parts.noise.bin is not None
    assert whole.noise.bin.count == parts.noise.bin.count
    assert whole.noise.bin.floor_rms == pytest.approx(parts.noise.bin.floor_rms, rel=1e-12)
