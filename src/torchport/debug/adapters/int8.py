"""Matrix products and convolutions as an accelerator computes them that multiplies 8-bit integers.

Operands are scaled to integers of -128 to 127, beyond which they saturate; sums are 32-bit integers, which saturate
too. Integers are held in float64, which has every such sum exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import OpOverload

aten = torch.ops.aten
LARGEST = 127
_INT32 = torch.iinfo(torch.int32)
Product = Callable[..., Tensor]


def int8_products(limit: float | None) -> dict[OpOverload, Product]:
    """For each operation that multiplies, the function that does so in integers.

    `limit` is the magnitude at which operands saturate; None if each row's and channel's own largest is taken.
    """
    return {
        aten.mm.default: partial(_matrices, limit),
        aten.bmm.default: partial(_matrices, limit),
        aten.addmm.default: partial(_added_to, limit),
        aten.baddbmm.default: partial(_added_to, limit),
        aten.convolution.default: partial(_convolution, limit),
    }


def _matrices(limit: float | None, first: Tensor, second: Tensor) -> Tensor:
    rows, row_scales = _integers(first, [-1], limit)
    columns, column_scales = _integers(second, [-2], limit)
    return (_saturated(rows @ columns) * row_scales * column_scales).to(first.dtype)


def _added_to(
    limit: float | None, bias: Tensor, first: Tensor, second: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    product = alpha * _matrices(limit, first, second)
    return product if beta == 0 else product + beta * bias


def _convolution(
    limit: float | None, given: Tensor, weight: Tensor, bias: Tensor | None, *how: Any
) -> Tensor:
    is_transposed = how[3]
    values, scale = _integers(given, range(given.ndim), limit)
    # Output channels are the first axis of a weight, unless the convolution is transposed: then all share one scale.
    weights, scales = _integers(weight, range(0 if is_transposed else 1, weight.ndim), limit)
    summed = _saturated(aten.convolution.default(values, weights, None, *how))
    places = [1] * (given.ndim - 2)
    result = (summed * scale * scales.reshape(1, -1, *places)).to(given.dtype)
    return result if bias is None else result + bias.reshape(-1, *places)


def _integers(values: Tensor, axes: Sequence[int], limit: float | None) -> tuple[Tensor, Tensor]:
    """Values as 8-bit integers, and what one step of them is worth; the scale is one for all along `axes`.

    No integer stands for NaN: it becomes 0, as in hardware that converts without a check.
    """
    wide = values.double()
    if limit is None:
        finite = torch.where(wide.isfinite(), wide, 0.0).abs()
        largest = (
            finite.amax(list(axes), keepdim=True) if finite.numel() else finite.new_zeros([1] * wide.ndim)
        )
    else:
        largest = wide.new_full([1] * wide.ndim, limit)
    scale = torch.where(largest > 0, largest, 1.0) / LARGEST
    return (wide / scale).round().clamp(-LARGEST - 1, LARGEST).nan_to_num(nan=0.0), scale


def _saturated(sums: Tensor) -> Tensor:
    return sums.clamp(_INT32.min, _INT32.max)
