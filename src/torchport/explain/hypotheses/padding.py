"""A convolution pads its input otherwise, or lost its dilation and was given a padding that keeps its size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis

_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
_MODES = ("reflect", "replicate", "circular")


def padded_otherwise(operation: BoundOperation) -> Iterator[Hypothesis]:
    if operation.short_name in _CONVOLUTIONS and isinstance(operation.get("padding"), list):
        yield from _other_padding(operation)
        yield from _no_dilation(operation)


def _other_padding(operation: BoundOperation) -> Iterator[Hypothesis]:
    """The padding is not zeros, or all of it is on one side."""
    padding = _per_axis(operation, "padding")
    if not any(padding):
        return
    both_sides = [size for size in reversed(padding) for _ in range(2)]
    for mode in _MODES:
        text = f"it is padded by {mode!r} where the model pads with zeros"
        yield Hypothesis("pad_mode", text, partial(_padded, operation, both_sides, mode))
    for side, place in enumerate(("in front", "at the end")):
        one_side = [2 * size if at == side else 0 for size in reversed(padding) for at in range(2)]
        text = f"all of the padding is {place}"
        yield Hypothesis("pad", text, partial(_padded, operation, one_side, "constant"))


def _padded(operation: BoundOperation, sizes: list[int], mode: str) -> Any:
    padded = torch.nn.functional.pad(operation["input"], sizes, mode=mode)
    return operation(input=padded, padding=[0] * _axes(operation))


def _no_dilation(operation: BoundOperation) -> Iterator[Hypothesis]:
    """The dilation is 1, and the padding less, so that the result has the same size."""
    padding, dilation = _per_axis(operation, "padding"), _per_axis(operation, "dilation")
    kernel = operation["weight"].shape[2:]
    less = [p - (d - 1) * (k - 1) // 2 for p, d, k in zip(padding, dilation, kernel, strict=True)]
    if max(dilation) > 1 and min(less) >= 0:
        text = f"dilation is 1 and padding {less}, where the model has {dilation} and {padding}"
        yield Hypothesis("dilation", text, partial(operation, dilation=[1] * len(kernel), padding=less))


def _per_axis(operation: BoundOperation, argument: str) -> list[int]:
    """One number for each axis of an image, also if the operation was given one for all."""
    value: list[int] = operation[argument]
    axes = _axes(operation)
    return value if len(value) == axes else value * axes


def _axes(operation: BoundOperation) -> int:
    weight: torch.Tensor = operation["weight"]
    return weight.ndim - 2
