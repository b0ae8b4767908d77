"""Layers that choose, such as a router that picks the largest score.

If two scores are nearly equal, eager PyTorch itself may choose otherwise than the truth does, and a whole row of
the result is another. The distance of that row says nothing about the floor of the others: they are judged without it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from torchport.parity import dtypes
from torchport.parity.metrics import Metrics
from torchport.trace.residual import widened

MOST = 0.1
"""If a larger share of the elements is far from the truth, the layer loses digits, and does not choose; nor may a
candidate choose otherwise in more."""
GAP = 16.0
"""How much nearer to the truth elements are that were not chosen otherwise."""
BETWEEN = 0.1
"""The share of the elements that were chosen otherwise that may by chance be nearly as near."""
FEWEST = 8
"""Elements that a candidate may choose otherwise beside as many as eager PyTorch does, if `MOST` allows so many."""


class Steady(NamedTuple):
    """The values of a layer that chooses, with golden elements in the place of what was chosen otherwise."""

    candidate: torch.Tensor
    distance: torch.Tensor
    coarser: torch.Tensor | None
    chosen: int
    """The elements that the candidate chose otherwise."""
    allowed: int


def may_have_chosen(metrics: Metrics) -> bool:
    """Whether the golden value, or that of a coarser arithmetic, is somewhere off by more than half of the digits."""
    noise = metrics.noise
    if noise is None or noise.unknown:
        return False
    return max(noise.floor_max, noise.arithmetic_max) > half_of_the_digits(metrics)


def steady_part(
    golden: torch.Tensor,
    candidate: torch.Tensor,
    distance: torch.Tensor,
    coarser: torch.Tensor | None,
    metrics: Metrics,
    multiple: float,
) -> Steady | None:
    """What is left without the elements that were chosen otherwise; None if the layer does not look as if it chose."""
    far = half_of_the_digits(metrics)
    truth = widened(golden) + widened(distance)
    golden_off, candidate_off = _off(golden, truth), _off(candidate, truth)
    reference_off = golden_off if coarser is None else torch.maximum(golden_off, _off(coarser, truth))
    chosen = reference_off > far / GAP
    count, clearly = int(chosen.sum()), int((reference_off > far).sum())
    if not 0 < count <= MOST * golden.numel() or clearly < (1 - BETWEEN) * count:
        return None
    by_candidate = candidate_off > far
    gone = chosen | by_candidate
    return Steady(
        torch.where(gone, golden, candidate),
        torch.where(gone, 0.0, widened(distance)),
        None if coarser is None else torch.where(gone, golden, coarser),
        int(by_candidate.sum()),
        min(int(multiple * count) + FEWEST, int(MOST * golden.numel())),
    )


def half_of_the_digits(metrics: Metrics) -> float:
    return math.sqrt(dtypes.rounding_step(metrics.golden_dtype)) * metrics.golden_rms


def _off(values: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    return (widened(values) - truth).abs().nan_to_num(0.0)
