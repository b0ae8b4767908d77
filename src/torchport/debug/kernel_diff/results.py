"""What a model returns as values that can be compared: its tensors, and its numbers as tensors of no axes."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from torchport.candidates import leaves, precision
from torchport.capture.torch_internals import without_modes

Structure = tuple[tuple[leaves.Path, Any], ...]
_LARGEST = 2**63


def values_of(result: Any, dtype: torch.dtype) -> tuple[list[Tensor], Structure]:
    """The tensors and numbers that a model returns, and where they are, with everything else that it returns.

    A float is held in `dtype`: it was computed of tensors, and has no more digits than they have.
    """
    values: list[Tensor] = []
    structure: list[tuple[leaves.Path, Any]] = []
    for path, leaf in leaves.leaves(result):
        value = leaf.detach() if isinstance(leaf, Tensor) else _number(leaf, dtype)
        if value is None:
            structure += ((path + rest, (type(plain), plain)) for rest, plain in leaves.structure(leaf))
        else:
            values.append(value)
            structure.append((path, torch.Tensor if isinstance(leaf, Tensor) else type(leaf)))
    return values, tuple(structure)


def described(structure: Structure) -> str:
    """Such as `tensor at [0], 'mean' at ['kind']`."""
    parts = [
        f"{_said(leaf)}{f' at {leaves.described_path(path)}' if path else ''}" for path, leaf in structure
    ]
    return ", ".join(parts) or "nothing"


def _said(leaf: Any) -> str:
    if isinstance(leaf, tuple):
        return repr(leaf[1])
    return "tensor" if leaf is Tensor else str(leaf.__name__)


def dtype_of_numbers(tensors: Iterable[Tensor]) -> torch.dtype:
    """The dtype that most of a model's elements have, which its numbers are computed of."""
    return precision.prevailing(tensors) or torch.float32


def _number(leaf: Any, dtype: torch.dtype) -> Tensor | None:
    """A number as a tensor; None for what is none, or is a whole number that no tensor holds."""
    if isinstance(leaf, enum.Enum) or (isinstance(leaf, int) and not -_LARGEST <= leaf < _LARGEST):
        return None
    kinds: dict[type, torch.dtype] = {
        bool: torch.bool,
        int: torch.int64,
        float: dtype,
        complex: torch.complex128,
    }
    own = next((own for kind, own in kinds.items() if isinstance(leaf, kind)), None)
    if own is None:
        return None
    with without_modes():
        return torch.tensor(leaf, dtype=own)
