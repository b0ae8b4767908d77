"""The elements are in another order than the shape says, as happens when attention heads are split and merged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis


def heads(operation: BoundOperation) -> Iterator[Hypothesis]:
    """A reshape in the place of a transpose, or without the transpose before or after it."""
    operand, result = operation.get("self"), operation.result
    if not isinstance(operand, torch.Tensor) or not isinstance(result, torch.Tensor):
        return
    name, shape = operation.short_name, list(result.shape)
    if name in ("transpose", "permute", "t") and operand.numel() == result.numel():
        text = "it is reshaped where the model transposes"
        yield Hypothesis("heads", text, partial(operand.reshape, shape))
    if name in ("view", "reshape", "_unsafe_view", "flatten") and operand.ndim > 2:
        for first, second in itertools.combinations(range(operand.ndim), 2):
            text = f"axes {first} and {second} are transposed before it is reshaped"
            yield Hypothesis("heads", text, partial(_transposed_before, operand, first, second, shape))
    if name in ("view", "reshape") and result.ndim > operand.ndim:
        for first, second in itertools.combinations(range(result.ndim), 2):
            text = f"axes {first} and {second} of the result are split the other way round"
            yield Hypothesis("heads", text, partial(_transposed_after, operand, first, second, shape))


def _transposed_before(operand: torch.Tensor, first: int, second: int, shape: list[int]) -> torch.Tensor:
    return operand.transpose(first, second).reshape(shape)


def _transposed_after(operand: torch.Tensor, first: int, second: int, shape: list[int]) -> torch.Tensor:
    split = list(shape)
    split[first], split[second] = split[second], split[first]
    return operand.reshape(split).transpose(first, second)
