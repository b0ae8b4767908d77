"""How far a golden value is from the float64 truth: what is stored in place of the truth."""

from __future__ import annotations

import torch


def residual(golden: torch.Tensor, truth: torch.Tensor) -> torch.Tensor | None:
    """`truth - golden` in float32, 0 where one of them is not finite; None if the two cannot be compared."""
    if not golden.is_floating_point() or golden.shape != truth.shape:
        return None
    wide, exact = golden.detach().double().cpu(), truth.detach().double().cpu()
    is_finite = torch.isfinite(wide) & torch.isfinite(exact)
    return torch.where(is_finite, exact - wide, 0.0).float()
