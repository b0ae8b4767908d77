"""Elements among their like: distances from the truth, gathered by the magnitude of the truth.

A tensor may hold numbers of very different scales: scores beside a mask of -1e9, a few channels a thousand times as
large as the others. One floor for all of them would be that of the largest. So elements are gathered in bins, one for
every factor of 4 of the truth's magnitude, and each bin has a floor of its own. A bin with few elements has a floor by
luck, and is joined with its neighbours.
"""

from __future__ import annotations

import math

import numpy as np
from pydantic import BaseModel, ConfigDict

from torchport.parity import dtypes

MULTIPLE = 4.0
"""The floors that a candidate may be from the truth, by RMS; twice as many by maximum."""
LEEWAY = 4.0
"""The leeway of a bin's limit, over the root of its number of elements: half as much again at 64, 4 % at 10,000."""
ENOUGH = 64
"""The elements from which on a bin stands by itself."""
FEW = 16
"""With fewer elements, eager PyTorch may be near the truth by luck alone."""
FAR = 4
"""Bins that are more than this many factors of 4 apart are not joined, however few their elements are."""
_BINS = 256
"""A bin is the exponent of a float64 without its last bit, counted from below the smallest float32."""
_ZERO = 436
"""The exponent, without its last bit, up to which a magnitude is less than any float32 and counts as zero."""
_ADDED = ("count", "floor", "candidate", "coarser", "truth")
_LARGEST = ("floor", "candidate", "coarser", "truth")


class Bin(BaseModel):
    """The distances from the truth of the elements whose truth is of like magnitude."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    low: float
    """The magnitudes of the truth are at least this, and less than `high`. Zeros are in the lowest bin."""
    high: float
    count: int
    scale_rms: float
    scale_max: float
    floor_rms: float
    """The distance of the golden elements from the truth, or that of a coarser arithmetic, if it is larger."""
    floor_max: float
    candidate_rms: float
    candidate_max: float

    def floors(self, dtype: str) -> tuple[float, float]:
        """The noise floor of the bin, by RMS and by maximum: at least one rounding step at its scale."""
        step, least = dtypes.rounding_step(dtype), dtypes.least_step(dtype)
        return (
            max(self.floor_rms, step * self.scale_rms, least),
            max(self.floor_max, step * self.scale_max, least),
        )

    def in_floors(self, dtype: str) -> tuple[float, float]:
        """The candidate's distance from the truth in floors, by RMS and by maximum."""
        by_rms, by_max = self.floors(dtype)
        return self.candidate_rms / by_rms, self.candidate_max / by_max

    def ratio(self, dtype: str, multiple: float) -> float:
        """The share of the limit: `multiple` floors by RMS, twice as many by maximum, more of few elements.

        The fewer the elements, the more may eager PyTorch be nearer to the truth in these than in others.
        """
        by_rms, by_max = self.in_floors(dtype)
        limit = multiple * leeway(self.count)
        return max(by_rms / limit, by_max / (2 * limit))


def leeway(count: int) -> float:
    """How many times as many floors some elements may be from the truth, because eager PyTorch may be lucky there."""
    return 1 + LEEWAY / math.sqrt(max(count, 1))


class Bins:
    """Sums over the elements that have been added so far, by the magnitude of their truth."""

    def __init__(self) -> None:
        self.sums = {name: np.zeros(_BINS) for name in _ADDED}
        self.largest = {name: np.zeros(_BINS) for name in _LARGEST}

    def add(
        self,
        truth: np.ndarray,
        floor: np.ndarray,
        candidate: np.ndarray,
        coarser: np.ndarray | None,
    ) -> None:
        """Adds elements: their truth, and how far the golden, the candidate's and the coarser value are from it."""
        places = bin_of(truth)
        order = np.argsort(places, kind="stable")
        places = places.take(order)
        starts = np.concatenate([[0], np.flatnonzero(places[1:] != places[:-1]) + 1])
        found = places[starts]
        self.sums["count"][found] += np.diff(starts, append=places.size)
        given = {"floor": floor, "candidate": candidate, "truth": truth}
        for name, values in given.items() if coarser is None else (given | {"coarser": coarser}).items():
            sorted_values = values.take(order)
            magnitudes = np.abs(sorted_values, out=sorted_values)
            largest = np.maximum.reduceat(magnitudes, starts)
            self.largest[name][found] = np.maximum(self.largest[name][found], largest)
            self.sums[name][found] += np.add.reduceat(np.square(magnitudes, out=magnitudes), starts)

    def merge(self, other: Bins) -> None:
        for name in _ADDED:
            self.sums[name] += other.sums[name]
        for name in _LARGEST:
            np.maximum(self.largest[name], other.largest[name], out=self.largest[name])

    def joined(self) -> list[Bin]:
        """The bins, of which those with few elements are joined with their neighbours."""
        return [self._bin(group) for group in groups_of(self.sums["count"])]

    def _bin(self, group: list[int]) -> Bin:
        counts = self.sums["count"][group]
        number = counts.sum()

        def rms(name: str) -> float:
            return math.sqrt(self.sums[name][group].sum() / number)

        def largest(name: str) -> float:
            return float(self.largest[name][group].max())

        return Bin(
            low=_lowest(group[0]),
            high=_lowest(group[-1] + 1),
            count=int(number),
            scale_rms=rms("truth"),
            scale_max=largest("truth"),
            floor_rms=max(rms("floor"), rms("coarser")),
            floor_max=max(largest("floor"), largest("coarser")),
            candidate_rms=rms("candidate"),
            candidate_max=largest("candidate"),
        )


def bin_of(truth: np.ndarray) -> np.ndarray:
    """The number of each element's bin; 0 for zeros."""
    bits = np.ascontiguousarray(truth, np.float64).view(np.int64)
    exponents = (bits >> 53) & 0x3FF
    exponents -= _ZERO
    numbers: np.ndarray = np.clip(exponents, 0, _BINS - 1, out=exponents).astype(np.uint8)
    return numbers


def _lowest(number: int) -> float:
    """The smallest magnitude in a bin."""
    return 0.0 if number == 0 else math.ldexp(1.0, 2 * (number + _ZERO) - 1023)


def groups_of(counts: np.ndarray) -> list[list[int]]:
    """The numbers of the bins to be joined. Zeros have no scale, and go with the smallest numbers."""
    found = [int(number) for number in np.flatnonzero(counts)]
    if len(found) > 1 and found[0] == 0:
        # Zeros are counted where the smallest numbers are, whatever lies between.
        lowest = [found[:2], *([number] for number in found[2:])]
    else:
        lowest = [[number] for number in found]
    groups: list[list[int]] = []
    for numbers in lowest:
        if groups and not _is_far(groups[-1], numbers) and _few(counts, groups[-1]):
            groups[-1] += numbers
        else:
            groups.append(numbers)
    if len(groups) > 1 and _few(counts, groups[-1]) and not _is_far(groups[-2], groups[-1]):
        last = groups.pop()
        groups[-1] += last
    return groups


def _few(counts: np.ndarray, group: list[int]) -> bool:
    """Whether a group needs more elements; zeros, which are exact, do not make it large."""
    return bool(counts[[number for number in group if number or len(group) == 1]].sum() < ENOUGH)


def _is_far(lower: list[int], upper: list[int]) -> bool:
    return upper[0] - lower[-1] > FAR
