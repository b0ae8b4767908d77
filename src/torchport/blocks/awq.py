"""AWQ: 4 bits in groups of 128 of a row, with columns scaled up before by how large their inputs are.

What is rounded is `weight · s`, and what is multiplied with is that divided by `s` again: columns whose inputs are
large get finer steps. Of the powers of the inputs that `s` may be, the one with the least error of the product is
taken. Such weights are no blocks of GGUF: they are measured as the floats that they stand for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from torchport.blocks.rounding import Floats, halved

GROUP, LIMIT = 128, 15
BITS = 4 + (16 + 4) / GROUP
"""For a weight: 4 bits, and for each group a scale in half precision and a zero of 4 bits."""
POWERS = 20
LEAST_SCALE = np.float32(2**-24)
"""The least number above 0 in half precision. AWQ's own 1e-5 would make zeros of weights below it."""


class Grouped(NamedTuple):
    """Weights as groups of 4 bits, and the scales of columns that were chosen."""

    weights: Floats
    """What the groups stand for, with the scales of columns taken out again."""
    columns: Floats
    power: float


def quantise_awq(rows: Floats, mean_squares: Floats) -> Grouped | None:
    """The best groups, if `mean_squares` are those of the inputs of each column; None if no scale holds the weights."""
    inputs = np.sqrt(mean_squares.astype(np.float64))
    inputs = np.maximum(inputs, max(float(inputs.max()) * 1e-4, 1e-30))
    best: Grouped | None = None
    least = np.inf
    for step in range(POWERS):
        power = step / POWERS
        columns = inputs**power
        columns = (columns / np.sqrt(columns.max() * columns.min())).astype(np.float32)
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # Then the error is no number, and the power is not taken.
            made = rounded(rows * columns) / columns
            error = float((np.square((made - rows).astype(np.float64)) * mean_squares).sum())
        if error < least:
            best, least = Grouped(made, columns, power), error
    return best


def rounded(rows: Floats) -> Floats:
    """The rows in groups of 4 bits, each with its scale and its zero."""
    groups = rows.reshape(len(rows), -1, GROUP)
    least = np.minimum(groups.min(axis=2, keepdims=True), np.float32(0))
    most = np.maximum(groups.max(axis=2, keepdims=True), np.float32(0))
    scale = np.maximum((most - least) / np.float32(LIMIT), LEAST_SCALE)
    scale = halved(scale).astype(np.float32)
    zero = np.clip(np.rint(-least / scale), 0, LIMIT)
    integers = np.clip(np.rint(groups / scale) + zero, 0, LIMIT)
    result: Floats = ((integers - zero) * scale).reshape(rows.shape)
    return result
