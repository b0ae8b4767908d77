"""What is known of a tensor of a graph: shape, dtype, strides and memory, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Sizes = Mapping[Any, int]
"""Values of free sizes, by their symbols."""


@dataclass(frozen=True)
class TensorFacts:
    """A tensor of a graph. Free sizes have the value of the example."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...]
    device: str
    bytes: int
    """What its elements take; an axis that is only repeated by a stride of 0 is counted once."""
    has_free_sizes: bool = False
    depends_on_data: bool = False
    """Whether a size depends on values, so that the example does not tell it. It is given as 0."""
    storage: int | None = None
    """Tensors of a graph that have the same number share their memory."""
    storage_bytes: int = 0
    """What that memory takes as a whole."""

    @property
    def elements(self) -> int:
        return torch.Size(self.shape).numel()


def facts_of(tensor: Tensor, sizes: Sizes | None = None, storage: int | None = None) -> TensorFacts:
    given = sizes or {}
    strides = tensor.stride() if tensor.layout is torch.strided else ()
    shape = tuple(number_of(size, given) for size in tensor.shape)
    stride = tuple(number_of(size, given) for size in strides)
    taken = _bytes(shape, stride, tensor.element_size())
    return TensorFacts(
        shape=shape,
        dtype=tensor.dtype,
        stride=stride,
        device=str(tensor.device),
        bytes=taken,
        has_free_sizes=any(isinstance(size, torch.SymInt) for size in (*tensor.shape, *strides)),
        depends_on_data=any(_is_unknown(size, given) for size in tensor.shape),
        storage=storage,
        storage_bytes=taken if storage is None else number_of(tensor.untyped_storage().nbytes(), given),
    )


def number_of(size: Any, sizes: Sizes) -> int:
    """A size, or its value if it is free: that of `sizes`, else the example's; 0 if it depends on data."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    known = _from(size, sizes)
    if known is not None:
        return known
    hint = size.node.hint
    return 0 if hint is None else int(hint)


def _is_unknown(size: Any, sizes: Sizes) -> bool:
    return isinstance(size, torch.SymInt) and size.node.hint is None and _from(size, sizes) is None


def _from(size: torch.SymInt, sizes: Sizes) -> int | None:
    """A free size by the values of its symbols; None if not all of them are given."""
    if not sizes:
        return None
    known = size.node.expr.xreplace(dict(sizes))
    return int(known) if isinstance(known, int) or known.is_number else None


def _bytes(shape: Iterable[int], stride: tuple[int, ...], element: int) -> int:
    stored = shape if not stride else (size for size, step in zip(shape, stride) if step != 0 or size == 0)
    return torch.Size(stored).numel() * element
