"""Running sums over pairs of chunks, in float64: everything that a comparison is made of.

Every element is widened exactly and every difference is taken in float64, so maxima, ratios and counts are as
exact as float64 is. A sum over n elements is off by at most n * 2**-53 of the sum of its terms' magnitudes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchport.parity.bins import Bins

BLOCK = 8192
"""The number of products that one call of BLAS sums. Above 10000 OpenBLAS starts threads, which on a busy machine wait
for those of torch and cost many times what they save."""
WIDENED = 8 * BLOCK
"""The elements of equal tensors that are in float64 at a time."""
_ADDED = (
    *("count", "finite", "mismatches", "with_truth"),
    *("nan_golden", "nan_candidate", "nan_mismatches", "inf_mismatches"),
    *("absolute_error", "squared_error", "golden_squares", "candidate_squares", "product"),
    *("floor_squares", "distance_squares", "coarser_squares"),
)
_LARGEST = ("max_abs", "max_rel", "excess", "golden_max", "floor_max", "distance_max", "coarser_max")


class Sums:
    """Sums and maxima over the elements that have been added so far.

    Errors are summed over the elements that are finite in both tensors; the other elements are
    compared by position and counted.
    """

    def __init__(self, rtol: float, atol: float) -> None:
        self.rtol, self.atol = rtol, atol
        self.count = 0
        self.finite = 0
        self.mismatches = 0
        self.nan_golden = self.nan_candidate = 0
        self.nan_mismatches = self.inf_mismatches = 0
        self.absolute_error = self.squared_error = 0.0
        self.golden_squares: Any = 0.0
        self.candidate_squares: Any = 0.0
        self.product: Any = 0.0
        """These may be beyond float64."""
        self.max_abs = self.max_rel = self.excess = self.golden_max = 0.0
        self.with_truth = 0
        self.floor_squares = self.distance_squares = self.coarser_squares = 0.0
        self.floor_max = self.distance_max = self.coarser_max = 0.0
        self.bins: Bins | None = None
        """Distances from the truth by its magnitude, from the first element on whose truth is known."""
        self._first_nonfinite: int | None = None
        self._largest_error: int | None = None
        self._room = np.empty(0)

    @property
    def worst_at(self) -> int | None:
        """The flat index of the worst element: a wrong NaN or Inf before any finite error."""
        return self._largest_error if self._first_nonfinite is None else self._first_nonfinite

    def add(
        self,
        start: int,
        golden: np.ndarray,
        candidate: np.ndarray,
        residual: np.ndarray | None,
        coarser: np.ndarray | None = None,
    ) -> None:
        """Add two chunks whose first element has the flat index `start`.

        `residual` is what the golden elements lack to the truth, and `coarser` what a coarser arithmetic computes.
        """
        self.count += golden.size
        with np.errstate(all="ignore"):
            if golden.dtype.kind in "biu":
                self._add_exact(start, golden, candidate)
            else:
                self._add_floating(start, golden, candidate, residual, coarser)

    def add_equal(self, both: np.ndarray, residual: np.ndarray | None = None) -> None:
        """Add a chunk that is the same in both tensors, with NaN at the same places.

        In every bin, both are as far from the truth as each other, so that bins tell nothing.
        """
        self.count += both.size
        with np.errstate(all="ignore"):
            squares = _squares(both)
            if not np.isfinite(squares):
                not_a_number = int(np.isnan(both).sum())
                self.nan_golden += not_a_number
                self.nan_candidate += not_a_number
                is_finite = np.isfinite(both)
                both, residual = both[is_finite], None if residual is None else residual[is_finite]
                squares = _squares(both)
            if residual is not None:
                self._add_equal_distances(residual)
            if both.size:
                self.golden_max = max(self.golden_max, _largest(both))
        self.finite += both.size
        self.golden_squares += squares
        self.candidate_squares += squares
        self.product += squares

    def _add_equal_distances(self, residual: np.ndarray) -> None:
        squares = _squares(residual)
        if not np.isfinite(squares):
            residual = residual[np.isfinite(residual)]
            squares = _squares(residual)
        if not residual.size:
            return
        largest = _largest(residual)
        self.with_truth += residual.size
        self.floor_squares += float(squares)
        self.distance_squares += float(squares)
        self.floor_max, self.distance_max = max(self.floor_max, largest), max(self.distance_max, largest)

    def merge(self, later: Sums) -> None:
        """Add the sums of `later`, whose elements come after all elements of these sums."""
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(later, name))
        if later.max_abs > self.max_abs:
            self._largest_error = later._largest_error
        if self._first_nonfinite is None:
            self._first_nonfinite = later._first_nonfinite
        if later.bins is not None:
            self.bins = self.bins or Bins()
            self.bins.merge(later.bins)
        for name in _LARGEST:
            setattr(self, name, max(getattr(self, name), getattr(later, name)))

    def mean(self, total: float) -> float:
        return self._over(total, self.finite)

    def truth_mean(self, total: float) -> float:
        return self._over(total, self.with_truth)

    def largest(self, value: float) -> float:
        """The maximum `value`, or NaN if no element was finite in both."""
        return math.nan if self.finite == 0 < self.count else value

    def cosine(self) -> float:
        if self.finite == 0 < self.count:
            return math.nan
        if self.golden_squares == 0.0 and self.candidate_squares == 0.0:
            return 1.0
        norms = np.sqrt(self.golden_squares) * np.sqrt(self.candidate_squares)
        return max(-1.0, min(1.0, float(self.product / norms))) if norms else 0.0

    def _over(self, total: float, number: int) -> float:
        if number:
            return total / number
        return math.nan if self.count else 0.0

    def _add_exact(self, start: int, golden: np.ndarray, candidate: np.ndarray) -> None:
        if golden.dtype.kind == "b":
            golden = golden.view(np.uint8)
        if candidate.dtype.kind == "b":
            candidate = candidate.view(np.uint8)
        rows = self._rows(3, golden)
        rows[0], rows[1] = golden, candidate
        difference = np.subtract(rows[1], rows[0], out=rows[2])
        # Beyond 2**53 two different integers can be the same float64.
        difference[(difference == 0.0) & (golden != candidate)] = 1.0
        self._add_rows(start, rows, _dots(rows, rows), None)

    def _add_floating(
        self,
        start: int,
        golden: np.ndarray,
        candidate: np.ndarray,
        residual: np.ndarray | None,
        coarser: np.ndarray | None,
    ) -> None:
        rows = self._rows(3, golden)
        rows[0], rows[1] = golden, candidate
        np.subtract(rows[1], rows[0], out=rows[2])
        squares, places = _dots(rows, rows), None
        # The sum of squares is finite only if every element is. To look at the sum saves a pass over the elements.
        if not np.isfinite(squares[2]):
            finite = np.isfinite(rows[0]) & np.isfinite(rows[1])
            if not finite.all():
                self._add_nonfinite(start, rows[0], rows[1], finite)
                places = np.flatnonzero(finite)
                rows = rows[:, finite]
                residual = None if residual is None else residual[finite]
                coarser = None if coarser is None else coarser[finite]
        if not np.isfinite(squares).all():
            squares = _finite_dots(rows, rows)
        if residual is not None:
            self._add_distances(rows[0], rows[2], residual, coarser)
        self._add_rows(start, rows, squares, places)

    def _add_nonfinite(
        self, start: int, golden: np.ndarray, candidate: np.ndarray, finite: np.ndarray
    ) -> None:
        places = np.flatnonzero(~finite)
        golden, candidate = golden[places], candidate[places]
        golden_nan, candidate_nan = np.isnan(golden), np.isnan(candidate)
        nan_wrong = golden_nan != candidate_nan
        inf_wrong = ~golden_nan & ~candidate_nan & (golden != candidate)
        self.nan_golden += int(golden_nan.sum())
        self.nan_candidate += int(candidate_nan.sum())
        self.nan_mismatches += int(nan_wrong.sum())
        self.inf_mismatches += int(inf_wrong.sum())
        wrong = nan_wrong | inf_wrong
        if wrong.any():
            self.mismatches += int(wrong.sum())
            if self._first_nonfinite is None:
                self._first_nonfinite = start + int(places[wrong.argmax()])

    def _add_rows(self, start: int, rows: np.ndarray, squares: np.ndarray, places: np.ndarray | None) -> None:
        """Add finite elements and their differences. The three rows are overwritten."""
        golden, candidate, difference = rows
        if not golden.size:
            return
        of_golden, of_candidate, of_difference = squares.real
        self.finite += golden.size
        self.golden_squares += of_golden
        self.candidate_squares += of_candidate
        self.squared_error += of_difference
        self.product += _finite_dots(golden, candidate).real
        magnitude, error = _abs(golden), _abs(difference)
        self.golden_max = max(self.golden_max, float(magnitude.max()))
        worst = int(error.argmax())
        largest = float(error[worst])
        if largest > self.max_abs:
            self.max_abs = largest
            self._largest_error = start + (worst if places is None else int(places[worst]))
        if largest > 0.0:
            self.absolute_error += float(error.sum())
            self._add_ratios(
                error, magnitude, candidate if candidate.dtype == np.float64 else np.empty_like(error)
            )

    def _add_ratios(self, error: np.ndarray, magnitude: np.ndarray, room: np.ndarray) -> None:
        """Add the errors as multiples of the error allowed at their place, and of the golden value."""
        allowed = np.multiply(magnitude, self.rtol, out=room)
        allowed += self.atol
        # Only 0 / 0 gives a NaN here, and an error of 0 is none; fmax leaves it out.
        ratio = np.divide(error, allowed, out=room)
        excess = float(np.fmax.reduce(ratio, initial=0.0))
        if excess > 1.0:
            # That is, error > allowed: no quotient above 1 is rounded to 1.
            self.mismatches += int(np.count_nonzero(ratio > 1.0))
        self.excess = max(self.excess, excess)
        if self.max_rel < math.inf:
            relative = np.divide(error, magnitude, out=room)
            self.max_rel = max(self.max_rel, float(np.fmax.reduce(relative, initial=0.0)))

    def _add_distances(
        self, golden: np.ndarray, difference: np.ndarray, residual: np.ndarray, coarser: np.ndarray | None
    ) -> None:
        known = np.isfinite(residual)
        if not known.all():
            golden, difference, residual = golden[known], difference[known], residual[known]
            coarser = None if coarser is None else coarser[known]
        if not residual.size:
            return
        distance = difference - residual
        self.with_truth += residual.size
        self.floor_squares += float(_dots(residual, residual).real)
        self.distance_squares += float(_dots(distance, distance).real)
        self.floor_max = max(self.floor_max, float(np.abs(residual).max()))
        self.distance_max = max(self.distance_max, float(np.abs(distance).max()))
        if self.bins is None:
            self.bins = Bins()
        coarse = None
        if coarser is not None:
            coarse = coarser - golden - residual
            coarse[~np.isfinite(coarse)] = 0.0
            self.coarser_squares += float(_dots(coarse, coarse).real)
            self.coarser_max = max(self.coarser_max, float(np.abs(coarse).max()))
        self.bins.add(
            _magnitudes(golden + residual),
            _magnitudes(residual),
            _magnitudes(distance),
            None if coarse is None else _magnitudes(coarse),
        )

    def _rows(self, number: int, like: np.ndarray) -> np.ndarray:
        """`number` rows as long as `like`, wide enough for it. Chunks share their memory, so that it stays in cache."""
        if like.dtype.kind == "c":
            return np.empty((number, like.size), np.complex128)
        if self._room.size < number * like.size:
            self._room = np.empty(number * like.size)
        return self._room[: number * like.size].reshape(number, like.size)


def _magnitudes(numbers: np.ndarray) -> np.ndarray:
    """Complex numbers as their magnitudes, by which they are large, or far from the truth; others as they are."""
    return np.abs(numbers) if numbers.dtype.kind == "c" else numbers


def _finite_dots(first: np.ndarray, second: np.ndarray) -> Any:
    """The same for finite numbers whose products may be beyond float64."""
    dots = _dots(first, second)
    if np.isfinite(dots).all():
        return dots
    return _dots(first.astype(np.clongdouble if first.dtype.kind == "c" else np.longdouble), second)


def _squares(numbers: np.ndarray) -> Any:
    """The sum of the squares of numbers, which may be beyond float64. A few blocks are widened at a time."""
    is_complex = numbers.dtype.kind == "c"
    squares = _squares_in(np.complex128 if is_complex else np.float64, numbers)
    if np.isfinite(squares):
        return squares
    return _squares_in(np.clongdouble if is_complex else np.longdouble, numbers)


def _squares_in(dtype: Any, numbers: np.ndarray) -> Any:
    whole = numbers.size - numbers.size % BLOCK
    dots = []
    for start in range(0, whole, WIDENED):
        blocks = numbers[start : min(start + WIDENED, whole)].astype(dtype).reshape(-1, BLOCK)
        dots.append(np.vecdot(blocks, blocks))
    squares = np.concatenate(dots).sum() if dots else dtype(0.0)
    if whole < numbers.size:
        rest = numbers[whole:].astype(dtype)
        squares = squares + np.vecdot(rest, rest)
    return squares.real


def _largest(numbers: np.ndarray) -> float:
    """The largest magnitude of some numbers."""
    if numbers.dtype.kind == "c":
        return float(np.abs(numbers.astype(np.complex128)).max())
    return max(float(numbers.max()), -float(numbers.min()))


def _abs(row: np.ndarray) -> np.ndarray:
    """The magnitudes, in the place of the numbers where they fit."""
    magnitudes: np.ndarray = np.abs(row, out=row if row.dtype == np.float64 else None)
    return magnitudes


def _dots(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The sum of products along the last axis, the first factor conjugated, a block at a time."""
    size = first.shape[-1]
    whole = size - size % BLOCK
    rest: np.ndarray = np.vecdot(first[..., whole:], second[..., whole:])
    if not whole:
        return rest
    blocks = (*first.shape[:-1], -1, BLOCK)
    dots: np.ndarray = np.vecdot(first[..., :whole].reshape(blocks), second[..., :whole].reshape(blocks)).sum(
        -1
    )
    return dots + rest if whole < size else dots
