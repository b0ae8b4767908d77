"""Sums, means and variances over axes, running sums, and normalisations, in a class of arithmetic."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.arithmetic.sums import total


def summed(
    arithmetic: Arithmetic,
    values: Tensor,
    dim: Sequence[int] | int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    dims = _dims(values, dim)
    wide = values if dtype is None else values.to(dtype)
    if wide.dtype == torch.float64:
        return wide.sum(dims, keepdim)
    result = total(wide.float(), dims, arithmetic)
    for axis in sorted(dims) if keepdim else ():
        result = result.unsqueeze(axis)
    return result.to(wide.dtype)


def mean_of(
    arithmetic: Arithmetic,
    values: Tensor,
    dim: Sequence[int] | int | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    wide = values if dtype is None else values.to(dtype)
    count = prod(values.shape[axis] for axis in _dims(values, dim))
    return (summed(arithmetic, wide.float(), dim, keepdim) / count).to(wide.dtype)


def var_mean(
    arithmetic: Arithmetic,
    values: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    wide, dims = values.float(), _dims(values, dim)
    mean = mean_of(arithmetic, wide, dims, True)
    count = prod(values.shape[axis] for axis in dims) - (1 if correction is None else correction)
    var = summed(arithmetic, (wide - mean).square(), dims, keepdim) / max(count, 0)
    return var.to(values.dtype), (mean if keepdim else mean.reshape(var.shape)).to(values.dtype)


def var(arithmetic: Arithmetic, *args: Any, **kwargs: Any) -> Tensor:
    return var_mean(arithmetic, *args, **kwargs)[0]


def std(arithmetic: Arithmetic, *args: Any, **kwargs: Any) -> Tensor:
    return var(arithmetic, *args, **kwargs).sqrt()


def layer_norm(
    arithmetic: Arithmetic,
    values: Tensor,
    shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    dims = range(values.ndim - len(shape), values.ndim)
    result, mean, rstd = _normalised(arithmetic, values.float(), dims, eps)
    result = result if weight is None else result * weight.float()
    return (result if bias is None else result + bias.float()).to(values.dtype), mean, rstd


def group_norm(
    arithmetic: Arithmetic,
    values: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    places: int,
    groups: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    result, mean, rstd = _normalised(arithmetic, values.float().reshape(batch, groups, -1), [-1], eps)
    result = result.reshape(batch, channels, -1)
    result = result if weight is None else result * weight.float().unsqueeze(-1)
    result = result if bias is None else result + bias.float().unsqueeze(-1)
    return result.reshape(values.shape).to(values.dtype), mean.squeeze(-1), rstd.squeeze(-1)


def _normalised(
    arithmetic: Arithmetic, values: Tensor, dims: Sequence[int], eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Values less their mean and divided by their deviation, the mean, and one over the deviation."""
    var, mean = var_mean(arithmetic, values, dims, correction=0, keepdim=True)
    rstd = torch.rsqrt(var + eps)
    return (values - mean) * rstd, mean, rstd


def _dims(values: Tensor, dim: Sequence[int] | int | None) -> list[int]:
    given = [dim] if isinstance(dim, int) else list(dim or range(values.ndim))
    return [axis % values.ndim for axis in given] if values.ndim else []


def running_sum(
    arithmetic: Arithmetic, values: Tensor, dim: int, *, dtype: torch.dtype | None = None
) -> Tensor:
    return _running(arithmetic, values, dim, dtype, torch.cumsum, operator.add)


def running_product(
    arithmetic: Arithmetic, values: Tensor, dim: int, *, dtype: torch.dtype | None = None
) -> Tensor:
    return _running(arithmetic, values, dim, dtype, torch.cumprod, operator.mul)


def _running(
    arithmetic: Arithmetic,
    values: Tensor,
    dim: int,
    dtype: torch.dtype | None,
    eager: Callable[..., Tensor],
    joined: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """One term after the other. Eager PyTorch does so in float64, and rounds what it gives."""
    if arithmetic.running_sum is None or dtype == torch.float64 or not values.numel() or not values.ndim:
        return eager(values, dim, dtype=dtype)
    first, *rest = values.float().unbind(dim)
    found = [first]
    for term in rest:
        found.append(arithmetic.running_sum(joined(found[-1], term)))
    return torch.stack(found, dim).to(dtype or values.dtype)
