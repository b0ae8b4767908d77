"""Tables of windows along one axis: for each position of the result, the positions of the input in its window.

Each function gives a table `[positions of the result, positions of the kernel]`, with `ABSENT` beyond a margin.
"""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from torchport.targets.marble.fans.reach import ABSENT


def window(size: int, result: int, kernel: int, stride: int, padding: int, dilation: int) -> Tensor:
    """Those of a convolution or of pooling."""
    position = torch.arange(result)[:, None] * stride - padding + torch.arange(kernel) * dilation
    return _inside(position, size)


def transposed_window(
    size: int, result: int, kernel: int, stride: int, padding: int, dilation: int
) -> Tensor:
    """Those of a transposed convolution: a position of the input spreads over a window of the result."""
    reached = torch.arange(result)[:, None] + padding - torch.arange(kernel) * dilation
    return _inside(
        torch.where(reached % stride == 0, reached.div(stride, rounding_mode="floor"), ABSENT), size
    )


def adaptive_window(size: int, result: int) -> Tensor:
    """Those of pooling to a given number of positions: windows of about equal size, which may overlap."""
    spot = torch.arange(result)
    start = (spot * size).div(max(result, 1), rounding_mode="floor")
    end = -(-(spot + 1) * size).div(max(result, 1), rounding_mode="floor")
    position = start[:, None] + torch.arange(int((end - start).max()) if result else 0)
    return torch.where(position < end[:, None], position, ABSENT)


def until(size: int) -> Tensor:
    """Every position up to one's own."""
    position = torch.arange(size)
    return torch.where(position <= position[:, None], position, ABSENT)


def neighbours(size: int, result: int, kernel: int, before: int) -> Tensor:
    """Some positions from one's own on, in an input before which `before` positions of others lie."""
    return _inside(torch.arange(result)[:, None] + torch.arange(kernel) - before, size)


def difference_factors(order: int) -> Tensor:
    """The weights of a difference of some order: 1 and -1, or 1, -2 and 1."""
    return torch.tensor([(-1) ** (order - k) * math.comb(order, k) for k in range(order + 1)])


def window_size(size: int, result: int, kernel: int, stride: int, padding: int, is_padded: bool) -> Tensor:
    """How many positions each window has that an average is taken of; those of the padding too if `is_padded`."""
    start = torch.arange(result) * stride - padding
    end = (start + kernel).clamp(max=size + padding)
    return end - start if is_padded else end.clamp(max=size) - start.clamp(min=0)


Resized = tuple[Tensor, Tensor]
"""A table and the factors in it."""


@lru_cache(maxsize=64)
def resized(
    mode: str, size: int, result: int, align_corners: bool, scale: float | None, dtype: torch.dtype
) -> Resized:
    """Those of an interpolation along one axis. torch itself is asked, so the weights are the ones that it takes.

    Neighbours that coincide at a margin are one synapse with the weight of both. So an infinite value comes through,
    where torch, which multiplies it by a weight of 0 too, may give NaN.
    """
    spread = _interpolated(mode, torch.eye(size, dtype=dtype), result, align_corners, scale)
    marked = torch.zeros(size, size, dtype=dtype).fill_diagonal_(math.nan)
    touched = _interpolated(mode, marked, result, align_corners, scale).isnan()
    width = int(touched.sum(1).max()) if result else 0
    order = touched.to(torch.int8).sort(dim=1, descending=True, stable=True).indices[:, :width]
    table = torch.where(touched.gather(1, order), order, ABSENT)
    return table, spread.gather(1, order)


def _interpolated(mode: str, values: Tensor, result: int, align_corners: bool, scale: float | None) -> Tensor:
    """Rows interpolated to another length, with an axis for each position of the result first."""
    flat = values[:, None, :, None] if mode == "bicubic" else values[:, None]
    rest = flat.ndim - 3
    made = functional.interpolate(
        flat,
        None if scale is not None else [result, *[1] * rest],
        None if scale is None else [scale, *[1.0] * rest],
        mode,
        align_corners,
    )
    return made.reshape(len(values), result).T.contiguous()


def _inside(position: Tensor, size: int) -> Tensor:
    return torch.where((position >= 0) & (position < size), position, ABSENT)
