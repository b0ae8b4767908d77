"""Sums and products in a class of arithmetic, term after term where the class asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

import numpy as np
import torch
from torch import Tensor

from torchport.arithmetic.classes import FLOAT32, Arithmetic

MOST_STEPS = 400_000_000
"""Multiplications that are done term after term; a larger product adds several terms at a time."""
MOST_TERMS = 20_000
"""Terms of a sum that are rounded one by one; of a longer sum, several are added at a time."""


def product(first: Tensor, second: Tensor, arithmetic: Arithmetic, start: Tensor | None = None) -> Tensor:
    """The matrix product of `[..., m, k]` and `[..., k, n]`, in float32, added to `start`, if that is given.

    A running sum begins with `start`: if that is large, the sum is rounded at its scale all the way.
    """
    if arithmetic.operands is not None:
        first, second = arithmetic.operands(first), arithmetic.operands(second)
    if arithmetic.running_sum is None:
        return first @ second if start is None else start + first @ second
    terms = first.shape[-1]
    total = first[..., :0] @ second[..., :0, :]
    total = total if start is None else total + start
    block = max(1, ceil(total.numel() * terms / MOST_STEPS))
    columns = first.transpose(-1, -2).contiguous()
    for term in range(0, terms, block):
        some = columns[..., term : term + block, :].transpose(-1, -2)
        total = arithmetic.running_sum(total + some @ second[..., term : term + block, :])
    return total


def total(values: Tensor, dims: Sequence[int], arithmetic: Arithmetic) -> Tensor:
    """The sum over some axes, which are gone afterwards."""
    axes = sorted({dim % values.ndim for dim in dims}) if values.ndim else []
    rest = [axis for axis in range(values.ndim) if axis not in axes]
    shape = [values.shape[axis] for axis in rest]
    count = prod(values.shape[axis] for axis in axes)
    terms = values.detach().permute([*axes, *rest]).reshape(count, prod(shape))
    if arithmetic.running_sum is None:
        return terms.sum(0).reshape(shape)
    if arithmetic.running_sum is FLOAT32.running_sum:
        summed = torch.from_numpy(_one_after_the_other(terms.cpu().numpy()))
        return summed.reshape(shape).to(values.device)
    running = terms.new_zeros(terms.shape[1])
    for some in torch.split(terms, max(1, ceil(len(terms) / MOST_TERMS))):
        running = arithmetic.running_sum(running + some.sum(0))
    return running.reshape(shape)


def _one_after_the_other(terms: np.ndarray) -> np.ndarray:
    """The sum over the first axis. NumPy adds rows in order; of a single column it would make pairs."""
    if terms.shape[1] > 1 or not len(terms):
        summed: np.ndarray = np.add.reduce(np.ascontiguousarray(terms), axis=0)
        return summed
    running: np.ndarray = np.cumsum(terms, axis=0, dtype=terms.dtype)[-1]
    return running
