"""Means, running sums, look-ups and resizing by other operations, mostly products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from .rewriting import add_patch, operation

Axes = int | Sequence[int] | None
Average = Callable[[Tensor], Tensor]


def mean(kind: str) -> Callable[[Average], Average]:
    """Registers an average over the last axis, for means over the last axes and for pooling to one number."""

    def decorate(average: Average) -> Average:
        def over_axes(
            x: Tensor, dim: Axes = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
        ) -> Tensor | None:
            if dim is None or dtype is not None:
                return None
            axes = sorted(axis % x.ndim for axis in ([dim] if isinstance(dim, int) else dim))
            if axes != list(range(x.ndim - len(axes), x.ndim)):
                return None
            result = average(x.flatten(axes[0]))
            return result.view(*result.shape, *[1] * len(axes)) if keepdim else result

        def to_one(x: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor | None:
            return average(x.flatten(-2))[..., None, None] if output_size in (1, (1, 1), [1, 1]) else None

        add_patch(kind, {"mean": over_axes, "adaptive_avg_pool2d": to_one})
        return average

    return decorate


@mean("mean: product with a constant vector")
def by_matmul(x: Tensor) -> Tensor:
    return x @ torch.full((x.shape[-1],), 1 / x.shape[-1], dtype=x.dtype)


@mean("mean: product with ones, then divided")
def by_ones(x: Tensor) -> Tensor:
    return (x @ torch.ones(x.shape[-1], dtype=x.dtype)) / x.shape[-1]


@mean("mean: avg_pool")
def by_pooling(x: Tensor) -> Tensor:
    return F.avg_pool1d(x.reshape(1, -1, x.shape[-1]), x.shape[-1]).view(x.shape[:-1])


@mean("mean: sum / count")
def sum_by_count(x: Tensor) -> Tensor:
    return x.sum(-1) / x.shape[-1]


@mean("mean: of two halves")
def of_halves(x: Tensor) -> Tensor:
    first, second = x.tensor_split(2, -1)
    return (first.sum(-1) + second.sum(-1)) / x.shape[-1]


@mean("mean: one after the other")
def in_sequence(x: Tensor) -> Tensor:
    total = torch.zeros_like(x[..., 0])
    for value in x.unbind(-1):
        total = total + value
    return total / x.shape[-1]


@operation("running sum: triangular matrix", "cumsum")
def cumsum(x: Tensor, dim: int) -> Tensor | None:
    if not x.is_floating_point():
        return None
    rows = x.movedim(dim, -1)
    ones = torch.ones(rows.shape[-1], rows.shape[-1], dtype=x.dtype).triu()
    return (rows @ ones).movedim(-1, dim)


@operation("running sum: one after the other", "cumsum")
def cumsum_in_sequence(x: Tensor, dim: int) -> Tensor | None:
    if not x.is_floating_point():
        return None
    sums, total = [], torch.zeros_like(x.select(dim, 0))
    for value in x.unbind(dim):
        total = total + value
        sums.append(total)
    return torch.stack(sums, dim)


@operation("embedding: one-hot product", "embedding")
def embedding(
    ids: Tensor, weight: Tensor, padding_idx: int | None = None, *_: object, **__: object
) -> Tensor:
    return F.one_hot(ids, weight.shape[0]).to(weight.dtype) @ held(weight, padding_idx)


@operation("embedding: index_select", "embedding", arithmetic="eager")
def by_index(ids: Tensor, weight: Tensor, padding_idx: int | None = None, *_: object, **__: object) -> Tensor:
    return held(weight, padding_idx).index_select(0, ids.flatten()).view(*ids.shape, -1)


def held(weight: Tensor, padding_idx: int | None) -> Tensor:
    """The table, with no gradient for the row of padding."""
    if padding_idx is None:
        return weight
    is_padding = (torch.arange(weight.shape[0]) == padding_idx % weight.shape[0])[:, None]
    return torch.where(is_padding, weight.detach(), weight)


def resizing(size: int, to: int, aligned: bool, ratio: float | None) -> Tensor:
    """The matrix of a linear interpolation along one axis, as torch places the points."""
    places = torch.arange(to, dtype=torch.float64)
    if aligned:
        points = places * ((size - 1) / max(to - 1, 1))
    else:
        points = ((places + 0.5) * (size / to if ratio is None else 1 / ratio) - 0.5).clamp(min=0)
    lower = points.floor().long().clamp(max=size - 1)
    share = points - lower
    matrix = torch.zeros(to, size, dtype=torch.float64)
    matrix[torch.arange(to), lower] += 1 - share
    matrix[torch.arange(to), (lower + 1).clamp(max=size - 1)] += share
    return matrix


@operation("interpolate: products of matrices", "interpolate")
def interpolate(
    x: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    **rest: object,
) -> Tensor | None:
    if mode not in ("linear", "bilinear") or any(rest.values()):
        return None
    for axis in range(2, x.ndim):
        ratio = scale_factor[axis - 2] if isinstance(scale_factor, Sequence) else scale_factor
        wanted = size[axis - 2] if isinstance(size, Sequence) else size
        to = wanted if wanted is not None else math.floor(x.shape[axis] * (ratio or 1))
        matrix = resizing(x.shape[axis], to, bool(align_corners), ratio).to(x.dtype)
        x = (x.movedim(axis, -1) @ matrix.T).movedim(-1, axis)
    return x
