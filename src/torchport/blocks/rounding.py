"""How ggml rounds: sums in one order, integers by one trick, scales in half precision. All formats share it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
"""Groups of float32 as columns: the first axis is the place in the group, so that sums over it keep their order."""
Bytes = NDArray[Any]

_MAGIC = np.float32(12582912.0)
"""1.5 · 2²³: a float32 that is added to it is rounded to an integer, which is then in its lowest bits."""
TINY = np.float32(1e-15)
"""A group whose largest weight is below it is taken for zero."""


def nearest(values: Floats) -> Floats:
    """The nearest integers, ties to even; only below 2²² in magnitude, beyond which it gives what ggml gives."""
    bits = (values + _MAGIC).view(np.int32)
    bits &= 0x007FFFFF
    bits -= 0x00400000
    return bits.astype(np.float32)


def clipped(values: Floats, low: float, high: float) -> Floats:
    return np.clip(nearest(values), np.float32(low), np.float32(high))


def summed(values: Floats) -> Floats:
    """The sum of each column, added one after the other, as a loop in C adds them."""
    total: Floats = np.add.reduce(values, axis=0)
    return total


def halved(values: Floats) -> NDArray[np.float16]:
    """Values as half-precision numbers; what is too large becomes infinite, and is refused later."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16)


def inverse(values: Floats) -> Floats:
    """1/x, and 0 for 0."""
    return divided(np.float32(1), values)


def divided(numerator: Any, denominator: Floats) -> Floats:
    """The quotient, and 0 where the denominator is 0."""
    result = np.zeros(np.broadcast_shapes(np.shape(numerator), denominator.shape), np.float32)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    return result


def farthest(values: Floats) -> Floats:
    """Of each column the value of the largest magnitude, with its sign; the first of those that are equal."""
    places = np.argmax(np.abs(values), axis=0)
    # Adding 0 makes -0 a 0, as the C code starts from 0 and keeps that.
    result: Floats = np.take_along_axis(values, places[None], axis=0)[0] + np.float32(0)
    return result


def least_of(values: Floats) -> Floats:
    """The least value of each column: the first of those that are equal, because there are two zeros."""
    result: Floats = np.take_along_axis(values, np.argmin(values, axis=0)[None], axis=0)[0]
    return result


def columns(values: Floats, size: int) -> Floats:
    """Rows of weights as groups of `size`, a group a column."""
    return np.ascontiguousarray(values.reshape(-1, size).T)
