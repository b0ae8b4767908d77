"""How far a golden value is from the float64 truth: what is stored in place of the truth."""

from __future__ import annotations

import torch


def residual(golden: torch.Tensor, truth: torch.Tensor) -> torch.Tensor | None:
    """`truth - golden` in float32, 0 where one of them is not finite; None if the two cannot be compared."""
    if not golden.is_floating_point() or golden.shape != truth.shape:
        return None
    difference = truth.detach().double().cpu() - golden.detach().double().cpu()
    return difference.nan_to_num_(0.0, posinf=0.0, neginf=0.0).float()
