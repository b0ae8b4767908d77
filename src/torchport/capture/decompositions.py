"""Operations that torch keeps whole, and that are taken apart here, so that no target needs to know them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def _as_strided(
    x: torch.Tensor, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any = None
) -> torch.Tensor:
    """Elements by their places in memory, as a graph has no memory: those of a tensor that lies in it without gaps."""
    flat = _in_order_of_memory(x)
    if flat is None:
        return NotImplemented
    place = torch.full((), storage_offset or 0, dtype=torch.int64, device=x.device)
    for axis, (length, step) in enumerate(zip(size, stride, strict=True)):
        along = torch.arange(length, device=x.device) * step
        place = place + along.reshape([-1] + [1] * (len(size) - axis - 1))
    return flat[place]


def _in_order_of_memory(x: torch.Tensor) -> torch.Tensor | None:
    """The elements in the order in which they lie in memory; None if there are gaps, or others before them."""
    if x.storage_offset() != 0:
        return None
    if x.is_contiguous():
        return x.reshape(-1)
    if not all(isinstance(number, int) for number in (*x.shape, *x.stride())):
        return None
    turned = x.permute(sorted(range(x.ndim), key=lambda axis: -x.stride(axis)))
    return turned.reshape(-1) if turned.is_contiguous() else None


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {torch.ops.aten.as_strided.default: _as_strided}
