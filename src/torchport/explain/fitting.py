"""Finds the number with which a hypothesis explains the most, and says it with as few digits as will do.

In: a function from a number to the share of the error that is left, and the numbers to try. Out: the best number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

_GRID_STEPS = 14
_SEARCH_STEPS = 32
_AS_GOOD_AS_THE_BEST = 1.5
"""How many times as much a number with few digits may leave as the best number does."""
_NOTHING_LEFT = 1e-6
_DIGITS = 4
_DIGITS_NEAR_1 = 6
_NEAR_1 = 0.01
"""A factor so near to 1 is told from it by more digits."""
_GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Fit:
    number: float
    left: float
    """The share of the error that is left with this number."""


def fit(left_with: Callable[[float], float], span: tuple[float, float]) -> Fit:
    """The number in `span` that leaves the least: a grid of exponents first, then a search around its best point."""

    def left_at(exponent: float) -> float:
        return left_with(10.0**exponent)

    low, high = (math.log10(end) for end in span)
    grid = [low + index * (high - low) / _GRID_STEPS for index in range(_GRID_STEPS + 1)]
    left = [left_at(exponent) for exponent in grid]
    best = min(range(len(grid)), key=left.__getitem__)
    exponent = _golden_section(left_at, grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)])
    return _with_few_digits(left_at, exponent)


def _golden_section(function: Callable[[float], float], low: float, high: float) -> float:
    """The point at which a function with one valley between `low` and `high` is least."""
    points = [high - _GOLDEN_RATIO * (high - low), low + _GOLDEN_RATIO * (high - low)]
    values = [function(point) for point in points]
    for _ in range(_SEARCH_STEPS):
        if values[0] < values[1]:
            high = points[1]
            points = [high - _GOLDEN_RATIO * (high - low), points[0]]
            values = [function(points[0]), values[0]]
        else:
            low = points[0]
            points = [points[1], low + _GOLDEN_RATIO * (high - low)]
            values = [values[1], function(points[1])]
    return (low + high) / 2


def _with_few_digits(left_at: Callable[[float], float], exponent: float) -> Fit:
    """The roundest number near the best one that explains about as much: nobody writes an epsilon of 1.0003e-05."""
    exact = left_at(exponent)
    for digits in (1, 2, 3):
        few = rounded(10.0**exponent, digits)
        left = left_at(math.log10(few))
        if left <= max(_AS_GOOD_AS_THE_BEST * exact, _NOTHING_LEFT):
            return Fit(few, left)
    number = 10.0**exponent
    return Fit(rounded(number, _DIGITS_NEAR_1 if abs(number - 1.0) < _NEAR_1 else _DIGITS), exact)


def rounded(number: float, digits: int) -> float:
    """The number with so many significant digits."""
    return float(f"{number:.{digits - 1}e}")
