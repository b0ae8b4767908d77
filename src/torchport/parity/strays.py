"""Bins that seem out of bounds, looked at without the few elements that stray into them.

An element of a channel of large numbers may be small by chance, because large numbers cancelled. Its error is that of
its channel, and eager PyTorch may be lucky at one such element. So up to `STRAYS` elements of a bin are not judged by
its floor, if they are as near to the truth as the farthest elements of eager PyTorch's value, anywhere in the tensor:
one in eight, and one of a bin that has less, if the tensor has others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from torchport.parity.bins import MULTIPLE, Bin

STRAYS = 8


@dataclass(frozen=True)
class Distances:
    """The truth of some elements, and how far the golden, the candidate's and a coarser value are from it."""

    truth: np.ndarray
    golden: np.ndarray
    candidate: np.ndarray
    coarser: np.ndarray | None

    @classmethod
    def of(
        cls,
        golden: np.ndarray,
        candidate: np.ndarray,
        residual: np.ndarray,
        coarser: np.ndarray | None,
    ) -> Distances:
        with np.errstate(all="ignore"):
            truth = golden.astype(residual.dtype) + residual
            distance = candidate.astype(residual.dtype) - truth
            known = np.isfinite(distance) & np.isfinite(residual)
            coarse = None if coarser is None else np.nan_to_num((coarser - truth)[known], posinf=0, neginf=0)
        return cls(truth[known], residual[known], distance[known], coarse)

    def without_strays(self, bin: Bin) -> Bin:
        magnitudes = np.abs(self.truth)
        inside = (magnitudes >= bin.low) & (magnitudes < bin.high)
        few = 1 if bin.count < self.truth.size else 0
        kept = bin.count - min(STRAYS, max(few, bin.count // STRAYS), self._that_may_stray(inside))

        def rest(distance: np.ndarray) -> np.ndarray:
            nearest: np.ndarray = np.sort(np.abs(distance[inside]))[:kept]
            return nearest if kept else np.zeros(1)

        golden, candidate = rest(self.golden), rest(self.candidate)
        coarser = np.zeros(1) if self.coarser is None else rest(self.coarser)
        return bin.model_copy(
            update={
                "floor_rms": max(_rms(golden), _rms(coarser)),
                "floor_max": float(max(golden.max(), coarser.max())),
                "candidate_rms": _rms(candidate),
                "candidate_max": float(candidate.max()),
            }
        )

    def _that_may_stray(self, inside: np.ndarray) -> int:
        """The elements of a bin that are no farther from the truth than a large element may be."""
        farthest = max(
            float(np.abs(values).max()) for values in (self.golden, self.coarser) if values is not None
        )
        beyond = np.count_nonzero(np.abs(self.candidate[inside]) > MULTIPLE * farthest)
        return STRAYS if beyond == 0 else 0


def worst_bin(bins: list[Bin], dtype: str, distances: Callable[[], Distances]) -> Bin | None:
    """The bin that is farthest from the truth, in its floors; what seems out of bounds is judged without strays."""
    judged = [one if one.ratio(dtype, MULTIPLE) <= 1.0 else distances().without_strays(one) for one in bins]
    return max(judged, key=lambda one: one.ratio(dtype, MULTIPLE), default=None)


def _rms(values: np.ndarray) -> float:
    return math.sqrt(float(np.vecdot(values, values)) / values.size)
