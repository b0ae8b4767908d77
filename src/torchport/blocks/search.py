"""The searches for the scale of a group by which ggml's formats are made: many groups at a time, a group a column.

Every step is in float32 and in the order in which ggml takes it, because a search that rounds otherwise finds other
scales. `weights` says how much the error of each value matters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from torchport.blocks.rounding import TINY, Floats, clipped, farthest, least_of, nearest, summed

_f32 = np.float32


class Signed(NamedTuple):
    """The scale of each group, and the integers from 0 to 2·limit - 1 that it gives."""

    scale: Floats
    integers: Floats


class Shifted(NamedTuple):
    """The scale and the minimum (as what is subtracted) of each group, and the integers from 0 on."""

    scale: Floats
    minimum: Floats
    integers: Floats


def symmetric(values: Floats, limit: int, weights: Floats | None = None) -> Signed:
    """Scales for integers from -limit to limit - 1: 19 of them are tried, the best by weighted square error is kept."""
    largest = farthest(values)
    is_zero = np.abs(largest) < TINY
    safe = np.where(is_zero, _f32(1), largest)
    importance = values * values if weights is None else weights
    importance_values = importance * values

    def tried(inverse_scale: Floats) -> tuple[Floats, Floats]:
        integers = clipped(inverse_scale * values, -limit, limit - 1)
        return summed(importance_values * integers), summed(importance * integers * integers)

    best_inverse = _f32(-limit) / safe
    product, squares = tried(best_inverse)
    scale = np.divide(product, squares, out=np.zeros_like(product), where=squares != 0)
    best = scale * product
    for step in [*range(-9, 0), *range(1, 10)]:
        inverse_scale = -(_f32(limit) + _f32(0.1) * _f32(step)) / safe
        product, squares = tried(inverse_scale)
        better = (squares > 0) & (product * product > best * squares)
        np.divide(product, squares, out=scale, where=better)
        np.multiply(scale, product, out=best, where=better)
        np.copyto(best_inverse, inverse_scale, where=better)
    integers = clipped(best_inverse * values, -limit, limit - 1) + _f32(limit)
    integers[:, is_zero] = 0
    scale[is_zero] = 0
    return Signed(scale, integers)


def refined(values: Floats, limit: int) -> Signed:
    """The same, from one scale on: each integer in turn is changed if that is better, five times over."""
    largest = farthest(values)
    is_zero = np.abs(largest) < TINY
    safe = np.where(is_zero, _f32(1), largest)
    integers = clipped((_f32(-limit) / safe) * values, -limit, limit - 1)
    importance = values * values
    products = importance * values
    product = summed(products * integers)
    squares = summed(importance * integers * integers)
    for _ in range(5):
        if not _refine(values, integers, importance, products, product, squares, (-limit, limit - 1)):
            break
    scale = np.divide(product, squares, out=np.zeros_like(product), where=squares > 0)
    integers += _f32(limit)
    integers[:, is_zero] = 0
    scale[is_zero] = 0
    return Signed(scale, integers)


def _refine(
    values: Floats,
    integers: Floats,
    importance: Floats,
    products: Floats,
    product: Floats,
    squares: Floats,
    limits: tuple[int, int],
    *,
    both: bool = False,
) -> bool:
    """One pass over the places of all groups, in place; gives whether anything was changed."""
    changed = False
    for value, integer, weight, weighted in zip(values, integers, importance, products, strict=True):
        other_product = product - weighted * integer
        other_squares = squares - weight * integer * integer
        possible = other_product > 0
        if both:
            possible &= other_squares > 0
        safe = np.where(possible, other_product, _f32(1))
        new = clipped(value * other_squares / safe, *limits)
        possible &= new != integer
        other_product = other_product + weighted * new
        other_squares = other_squares + weight * new * new
        better = other_product * other_product * squares > product * product * other_squares
        better &= possible if both else possible & (other_squares > 0)
        if better.any():
            changed = True
            np.copyto(integer, new, where=better)
            np.copyto(product, other_product, where=better)
            np.copyto(squares, other_squares, where=better)
    return changed


def shifted(
    values: Floats,
    limit: int,
    weights: Floats,
    *,
    first: float,
    delta: float,
    steps: int,
    absolute: bool = False,
) -> Shifted:
    """Scales and minima for integers from 0 to limit, by weighted least squares around ranges that are tried."""
    lowest = least_of(values)
    least = np.where(lowest > 0, _f32(0), lowest)
    most = values.max(axis=0)
    weight_sum, value_sum = summed(weights), summed(weights * values)
    is_flat = most <= least
    span = np.where(is_flat, _f32(1), most - least)
    scale = _f32(1) / (_f32(limit) / span)
    integers = clipped((_f32(limit) / span) * (values - least), 0, limit)
    best = _error(values, scale, least, integers, weights, absolute)
    first_least = least.copy()
    for step in range(steps + 1):
        span = np.where(is_flat, _f32(1), most - least)
        inverse_scale = (_f32(first) + _f32(delta) * _f32(step) + _f32(limit)) / span
        tried = clipped(inverse_scale * (values - least), 0, limit)
        weighted = weights * tried
        sum_l, sum_l2, sum_xl = summed(weighted), summed(weighted * tried), summed(weighted * values)
        determinant = weight_sum * sum_l2 - sum_l * sum_l
        solvable = determinant > 0
        safe = np.where(solvable, determinant, _f32(1))
        new_scale = (weight_sum * sum_xl - value_sum * sum_l) / safe
        new_least = (sum_l2 * value_sum - sum_l * sum_xl) / safe
        above = solvable & (new_least > 0)
        new_least[above] = 0
        np.divide(sum_xl, sum_l2, out=new_scale, where=above)
        error = _error(values, new_scale, new_least, tried, weights, absolute)
        better = solvable & (error < best)
        np.copyto(integers, tried, where=better)
        np.copyto(best, error, where=better)
        np.copyto(scale, new_scale, where=better)
        np.copyto(least, new_least, where=better)
    integers[:, is_flat] = 0
    scale[is_flat] = 0
    np.copyto(least, first_least, where=is_flat)
    return Shifted(scale, -least, integers)


def _error(
    values: Floats, scale: Floats, least: Floats, integers: Floats, weights: Floats, absolute: bool
) -> Floats:
    difference = scale * integers + least - values
    return summed(weights * (np.abs(difference) if absolute else difference * difference))


def positive(values: Floats, limit: int, weights: Floats) -> Signed:
    """Scales for integers from 0 to limit without a minimum, as the scales of groups themselves are stored."""
    most = np.maximum(values.max(axis=0), _f32(0))
    is_zero = most < TINY
    safe = np.where(is_zero, _f32(1), most)
    best_inverse = _f32(limit) / safe
    best = _positive_error(values, best_inverse, nearest(best_inverse * values), weights)
    for step in [*range(-4, 0), *range(1, 5)]:
        inverse_scale = (_f32(0.1) * _f32(step) + _f32(limit)) / safe
        integers = np.minimum(nearest(inverse_scale * values), _f32(limit))
        error = _positive_error(values, inverse_scale, integers, weights)
        better = error < best
        np.copyto(best, error, where=better)
        np.copyto(best_inverse, inverse_scale, where=better)
    integers = np.minimum(nearest(best_inverse * values), _f32(limit))
    products = weights * values
    product = summed(products * integers)
    squares = summed(weights * integers * integers)
    for _ in range(5):
        if not _refine(values, integers, weights, products, product, squares, (-(2**31), limit), both=True):
            break
    scale = np.divide(product, squares, out=np.zeros_like(product), where=squares > 0)
    integers[:, is_zero] = 0
    scale[is_zero] = 0
    return Signed(scale, integers)


def _positive_error(values: Floats, inverse_scale: Floats, integers: Floats, weights: Floats) -> Floats:
    difference = values - (_f32(1) / inverse_scale) * integers
    return summed(weights * difference * difference)
