"""Judging single tensors, by the same rule as whole traces: what scripts and tests of one operation import."""

from __future__ import annotations

import torch

from torchport.parity.metrics import Metrics, compare
from torchport.parity.tolerance import NoiseFloor, Verdict
from torchport.trace.residual import residual


def judge(
    golden: torch.Tensor, candidate: torch.Tensor, truth: torch.Tensor | None = None
) -> tuple[Metrics, Verdict]:
    """How far a candidate is from the golden value, and the verdict of the noise floor rule."""
    metrics = compare(golden, candidate, None if truth is None else residual(golden, truth))
    return metrics, NoiseFloor().judge(metrics)


def allowance(golden: torch.Tensor, distance: torch.Tensor | None) -> float:
    """The largest difference from the golden value that an honest candidate can have at any element.

    `distance` is how far the golden value is from the truth. Within it is necessary, not enough, to pass the rule.
    """
    return NoiseFloor().allowance(compare(golden, golden, distance))
