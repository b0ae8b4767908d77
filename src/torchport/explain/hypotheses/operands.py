"""A tensor that the operation reads is left out, is in another's place, or is lined up with other axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from torchport.capture import operations
from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis

_KINDS_OF_LEFT_OUT = {"bias": "bias", "weight": "scale", "attn_mask": "mask"}


def left_out(operation: BoundOperation) -> Iterator[Hypothesis]:
    """An operand that the operation can do without."""
    declared = operations.arguments(operation.node.op)
    optional = {argument.name for argument in declared if argument.is_optional_tensor}
    for name in operation.tensors:
        if name in optional:
            kind = _KINDS_OF_LEFT_OUT.get(name, "dropped_operand")
            yield Hypothesis(kind, f"{name} is not applied", partial(operation, **{name: None}))


def swapped(operation: BoundOperation) -> Iterator[Hypothesis]:
    """Two operands in each other's place."""
    for (first, one), (second, other) in itertools.combinations(operation.tensors.items(), 2):
        if one.shape == other.shape and one.dtype == other.dtype:
            statistics = {first, second} == {"running_mean", "running_var"}
            kind = "statistics_swapped" if statistics else "swapped_operands"
            text = f"{operation.described(first)} and {operation.described(second)} are swapped"
            yield Hypothesis(kind, text, partial(operation, **{first: other, second: one}))
    tensors = operation.get("tensors")
    if isinstance(tensors, list) and len(tensors) > 1:
        text = "the tensors are in reverse order"
        yield Hypothesis("swapped_operands", text, partial(operation, tensors=tensors[::-1]))


def one_alone(operation: BoundOperation) -> Iterator[Hypothesis]:
    """The operation is missing, or one side of it: the result is one of the operands."""
    tensors, result = operation.tensors, operation.result
    if not isinstance(result, torch.Tensor):
        return
    for name, operand in tensors.items():
        if operand.shape == result.shape:
            others = [operation.described(other) for other in tensors if other != name]
            if others:
                kind, text = "dropped_operand", f"{' and '.join(others)} left out"
            else:
                kind, text = "dropped_operation", f"{operation.short_name} is left out"
            yield Hypothesis(kind, text, partial(_itself, operand))


def _itself(operand: torch.Tensor) -> torch.Tensor:
    return operand


def broadcast(operation: BoundOperation) -> Iterator[Hypothesis]:
    """An operand with fewer axes, lined up with other axes."""
    for first, second in (("self", "other"), ("other", "self")):
        large, small = operation.get(first), operation.get(second)
        if isinstance(large, torch.Tensor) and isinstance(small, torch.Tensor) and large.ndim >= 2:
            for axes, shape in _ways_to_line_up(large.shape, small.shape):
                text = f"{second} is lined up with axis {', '.join(map(str, axes))} of {first}"
                yield Hypothesis("broadcast", text, partial(_reshaped, operation, second, shape))


def _ways_to_line_up(large: torch.Size, small: torch.Size) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """The axes of the large operand that have the sizes of the small one, and the shape that the small one then has."""
    sizes = [size for size in small if size > 1]
    if not sizes or len(sizes) >= len(large):
        return
    for axes in itertools.combinations(range(len(large)), len(sizes)):
        if [large[axis] for axis in axes] == sizes:
            yield axes, [large[axis] if axis in axes else 1 for axis in range(len(large))]


def _reshaped(operation: BoundOperation, argument: str, shape: list[int]) -> Any:
    return operation(**{argument: operation[argument].reshape(shape)})
