"""Layers that choose: what eager PyTorch chose otherwise than the truth does not excuse the other elements."""

from __future__ import annotations

import torch

from torchport.parity.judge import judge, judge_by
from torchport.parity.tolerance import NoiseFloor


def a_layer_that_chooses(rows_off: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A golden value, of which some rows are those of another choice, and its truth."""
    torch.manual_seed(0)
    truth = torch.randn(1000, 16, dtype=torch.float64)
    golden = truth.float()
    golden[:rows_off] = torch.randn(rows_off, 16)
    golden[:1, :1] = truth[:1, :1] + 1e-4  # Two choices may be nearly the same at some element.
    return golden, truth


def test_a_small_fault_in_the_others_is_found() -> None:
    golden, truth = a_layer_that_chooses(rows_off=20)
    assert judge(golden, golden, truth)[1].passed
    metrics, verdict = judge(golden, golden * (1 + 3e-6), truth)
    assert not verdict.passed and metrics.noise is not None and metrics.noise.floor_max < 1e-6


def test_a_candidate_may_choose_otherwise_in_other_rows_but_not_in_many() -> None:
    golden, truth = a_layer_that_chooses(rows_off=20)
    candidate = truth.float()
    candidate[500:540] = torch.randn(40, 16)
    assert judge(golden, candidate, truth)[1].passed
    candidate[500:600] = torch.randn(100, 16)
    verdict = judge(golden, candidate, truth)[1]
    assert not verdict.passed and "lose more than half of their digits" in (verdict.reason or "")


def test_what_a_coarser_arithmetic_chooses_otherwise_excuses_only_that() -> None:
    golden, truth = a_layer_that_chooses(rows_off=0)
    coarser = golden.clone()
    coarser[:20] = torch.randn(20, 16)
    distance = truth - golden.double()
    faulty = golden * (1 + 3e-6)
    assert not judge_by(NoiseFloor(), golden, faulty, distance, coarser)[1].passed
    assert judge_by(NoiseFloor(), golden, coarser, distance, coarser)[1].passed


def test_a_layer_that_loses_digits_everywhere_does_not_choose() -> None:
    torch.manual_seed(0)
    truth = torch.randn(1000, 16, dtype=torch.float64)
    golden = (truth + 1e-2 * torch.randn(1000, 16)).float()
    candidate = (truth + 2e-2 * torch.randn(1000, 16)).float()
    assert judge(golden, candidate, truth)[1].passed


def test_one_choice_of_eager_pytorch_excuses_no_more_than_a_tenth_of_a_small_tensor() -> None:
    torch.manual_seed(0)
    golden = torch.randn(100)
    truth = golden.double() * (1 + 1e-9)
    truth[0] += 0.01  # Eager PyTorch chose otherwise there.
    candidate = golden.clone()
    candidate[1:10] += 0.002
    assert judge(golden, candidate, truth)[1].passed
    candidate[10] += 0.002
    verdict = judge(golden, candidate, truth)[1]
    assert not verdict.passed and "11 elements lose more than half of their digits, of which 10 may" in (
        verdict.reason or ""
    )
