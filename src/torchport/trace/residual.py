"""How far a golden value is from the float64 truth: what is stored in place of the truth."""

from __future__ import annotations

import torch

_CHUNK = 1 << 17
"""Elements that are widened at a time: what is in float64 stays small, and in the cache of a processor."""


def residual(golden: torch.Tensor, truth: torch.Tensor) -> torch.Tensor | None:
    """`truth - golden` in float32, 0 where one of them is not finite; None if the two cannot be compared."""
    if not golden.is_floating_point() or golden.shape != truth.shape:
        return None
    distance = torch.empty(golden.shape, dtype=torch.float32)
    given = (truth.detach().cpu().double(), golden.detach().cpu(), distance)
    for true, value, place in zip(*(torch.split(one.reshape(-1), _CHUNK) for one in given), strict=True):
        difference = true - value
        if not difference.sum().isfinite():
            difference.nan_to_num_(0.0, posinf=0.0, neginf=0.0)
        place.copy_(difference)
    return distance
