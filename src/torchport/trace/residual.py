"""How far a golden value is from the float64 truth: what is stored in place of the truth."""

from __future__ import annotations

import math

import torch

_CHUNK = 1 << 17
"""Elements that are widened at a time: what is in float64 stays small, and in the cache of a processor."""


def widened(values: torch.Tensor) -> torch.Tensor:
    """Numbers in float64 or, if they are complex, in complex128."""
    return values.to(torch.complex128 if values.is_complex() else torch.float64)


def residual(golden: torch.Tensor, truth: torch.Tensor) -> torch.Tensor | None:
    """`truth - golden` in single precision, 0 where one of them is not finite; None if the two cannot be compared."""
    if not (golden.is_floating_point() or golden.is_complex()) or golden.shape != truth.shape:
        return None
    true, value = truth.detach().cpu(), golden.detach().cpu()
    if value.numel() <= _CHUNK:
        return _difference(true, value)
    distance = torch.empty(golden.shape, dtype=torch.complex64 if golden.is_complex() else torch.float32)
    parts = (torch.split(whole.reshape(-1), _CHUNK) for whole in (true, value, distance))
    for true_part, value_part, place in zip(*parts, strict=True):
        place.copy_(_difference(true_part, value_part))
    return distance


def _difference(true: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    if value.is_complex():
        whole = (widened(true) - widened(value)).contiguous()
        return torch.where(torch.isfinite(whole), whole, 0.0).to(torch.complex64)
    wide = value.to(torch.float64, copy=True, memory_format=torch.contiguous_format)
    difference = torch.sub(true.double(), wide, out=wide)
    narrow = difference.float()
    if math.isfinite(narrow.sum().item()):
        return narrow
    return difference.nan_to_num_(0.0, posinf=0.0, neginf=0.0).float()
