"""Operations that torch has in narrow dtypes only, written out so that they can be computed in float64 as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def _grouped_mm(
    x: torch.Tensor,
    weight: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The rows of `x` up to the first offset times the first matrix of `weight`, and so on."""
    if offs is None or bias is not None or (x.ndim, weight.ndim) != (2, 3):
        raise ValueError(f"operands of {x.ndim} and {weight.ndim} axes")
    result = x.new_zeros(x.shape[0], weight.shape[2])
    start = 0
    for expert, end in enumerate(offs.tolist()):
        result[start:end] = x[start:end] @ weight[expert]
        start = end
    return result


IN_DOUBLE: dict[str, Callable[..., Any]] = {"aten._grouped_mm.default": _grouped_mm}
