"""Running sums over pairs of chunks, in float64: everything that a comparison is made of.

Every element is widened exactly and every difference taken in float64, so maxima, ratios and counts are those of
float64. A sum over n elements is off by at most n * 2**-53 of the sum of its terms' magnitudes.
"""

import math

import numpy as np

BLOCK = 8192
"""Products that one call of BLAS sums. Above 10000 OpenBLAS starts threads, which wait for torch's on a busy
machine and cost many times what they save."""
_ADDED = (
    *("count", "finite", "mismatches", "with_truth"),
    *("nan_golden", "nan_candidate", "nan_mismatches", "inf_mismatches"),
    *("absolute_error", "squared_error", "golden_squares", "candidate_squares", "product"),
    *("floor_squares", "distance_squares"),
)
_LARGEST = ("max_abs", "max_rel", "excess", "golden_max", "floor_max", "distance_max")


class Sums:
    """Sums and maxima over what has been added so far.

    Errors are summed over the elements that are finite in both; the rest are compared by
    position and counted.
    """

    def __init__(self, rtol: float, atol: float) -> None:
        self.rtol, self.atol = rtol, atol
        self.count = 0
        self.finite = 0
        self.mismatches = 0
        self.nan_golden = self.nan_candidate = 0
        self.nan_mismatches = self.inf_mismatches = 0
        self.absolute_error = self.squared_error = 0.0
        self.golden_squares = self.candidate_squares = self.product = 0.0
        self.max_abs = self.max_rel = self.excess = self.golden_max = 0.0
        self.with_truth = 0
        self.floor_squares = self.distance_squares = 0.0
        self.floor_max = self.distance_max = 0.0
        self._first_nonfinite: int | None = None
        self._largest_error: int | None = None
        self._rooms: dict[str, np.ndarray] = {}

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
    ) -> None:
        """Take in two chunks whose first element has the flat index `start`."""
        self.count += golden.size
        with np.errstate(all="ignore"):
            if golden.dtype.kind in "biu":
                self._add_exact(start, golden, candidate)
            else:
                self._add_floating(start, golden, candidate, residual)

    def add_equal(self, both: np.ndarray) -> None:
        """Take in a chunk that is the same, bit by bit, on both sides."""
        self.count += both.size
        with np.errstate(all="ignore"):
            wide = both.astype(np.float64) if both.dtype.kind in "biu" else both
            squares = _dot(wide, wide)
            if not math.isfinite(squares):
                not_a_number = int(np.isnan(wide).sum())
                self.nan_golden += not_a_number
                self.nan_candidate += not_a_number
                wide = wide[np.isfinite(wide)]
                squares = _dot(wide, wide)
            if wide.size:
                self.golden_max = max(
                    self.golden_max, float(np.abs(wide, out=self._room("magnitude", wide)).max())
                )
        self.finite += wide.size
        self.golden_squares += squares
        self.candidate_squares += squares
        self.product += squares

    def merge(self, later: "Sums") -> None:
        """Take in what `later` has summed up over elements that come after all of these."""
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(later, name))
        if later.max_abs > self.max_abs:
            self._largest_error = later._largest_error
        if self._first_nonfinite is None:
            self._first_nonfinite = later._first_nonfinite
        for name in _LARGEST:
            setattr(self, name, max(getattr(self, name), getattr(later, name)))

    def room(self, use: str, size: int) -> np.ndarray:
        """Memory for float64 numbers, the same for each chunk, so that it stays in the processor's cache."""
        if use not in self._rooms or self._rooms[use].size < size:
            self._rooms[use] = np.empty(size)
        return self._rooms[use][:size]

    def mean(self, total: float) -> float:
        return self._over(total, self.finite)

    def truth_mean(self, total: float) -> float:
        return self._over(total, self.with_truth)

    def largest(self, value: float) -> float:
        """A maximum, or NaN where there was nothing to take it over."""
        return math.nan if self.finite == 0 < self.count else value

    def cosine(self) -> float:
        if self.finite == 0 < self.count:
            return math.nan
        if self.golden_squares == 0.0 and self.candidate_squares == 0.0:
            return 1.0
        norms = math.sqrt(self.golden_squares) * math.sqrt(self.candidate_squares)
        return max(-1.0, min(1.0, self.product / norms)) if norms else 0.0

    def _over(self, total: float, number: int) -> float:
        if number:
            return total / number
        return math.nan if self.count else 0.0

    def _add_exact(self, start: int, golden: np.ndarray, candidate: np.ndarray) -> None:
        if golden.dtype.kind == "b":
            golden = golden.view(np.uint8)
        if candidate.dtype.kind == "b":
            candidate = candidate.view(np.uint8)
        unequal = golden != candidate
        wide_golden, wide_candidate = (
            golden.astype(np.float64),
            candidate.astype(np.float64),
        )
        error = np.abs(wide_candidate - wide_golden)
        # Beyond 2**53 two different integers can be the same float64.
        error = np.where(unequal, np.maximum(error, 1.0), 0.0)
        squares = _dot(wide_golden, wide_golden), _dot(wide_candidate, wide_candidate)
        self._add_finite(wide_golden, wide_candidate, squares)
        self._add_errors(error, np.abs(wide_golden), start, None)

    def _add_floating(
        self,
        start: int,
        golden: np.ndarray,
        candidate: np.ndarray,
        residual: np.ndarray | None,
    ) -> None:
        squares = _dot(golden, golden), _dot(candidate, candidate)
        places = None
        # A sum of squares is finite only if every element is: one pass less than to look at each.
        if not math.isfinite(squares[0] + squares[1]):
            finite = np.isfinite(golden) & np.isfinite(candidate)
            if not finite.all():
                self._add_nonfinite(start, golden, candidate, finite)
                places = np.flatnonzero(finite)
                golden, candidate = golden[finite], candidate[finite]
                squares = _dot(golden, golden), _dot(candidate, candidate)
                residual = None if residual is None else residual[finite]
        difference = np.subtract(candidate, golden, out=self._room("error", golden))
        if residual is not None:
            self._add_distances(difference, residual)
        self._add_finite(golden, candidate, squares)
        error = np.abs(difference, out=self._room("error", golden))
        self._add_errors(error, np.abs(golden, out=self._room("magnitude", golden)), start, places)

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

    def _add_finite(self, golden: np.ndarray, candidate: np.ndarray, squares: tuple[float, float]) -> None:
        self.finite += golden.size
        self.golden_squares += squares[0]
        self.candidate_squares += squares[1]
        self.product += _dot(golden, candidate)

    def _add_errors(
        self, error: np.ndarray, magnitude: np.ndarray, start: int, places: np.ndarray | None
    ) -> None:
        if not error.size:
            return
        self.golden_max = max(self.golden_max, float(magnitude.max()))
        worst = int(error.argmax())
        largest = float(error[worst])
        if largest > self.max_abs:
            self.max_abs = largest
            self._largest_error = start + (worst if places is None else int(places[worst]))
        if largest > 0.0:
            self.absolute_error += float(error.sum())
            self.squared_error += _dot(error, error)
            self._add_ratios(error, magnitude)

    def _add_ratios(self, error: np.ndarray, magnitude: np.ndarray) -> None:
        """Errors as multiples of what is allowed at their place, and of the golden value."""
        room = self._room("ratio", error)
        allowed = np.multiply(magnitude, self.rtol, out=room)
        allowed += self.atol
        # 0 / 0 is the only way to a NaN here, and is no error.
        ratio = np.divide(error, allowed, out=room)
        excess = float(np.fmax.reduce(ratio, initial=0.0))
        if excess > 1.0:
            # error > allowed, said of the ratio: a quotient is never rounded to or across 1.
            self.mismatches += int(np.count_nonzero(ratio > 1.0))
        self.excess = max(self.excess, excess)
        relative = np.divide(error, magnitude, out=room)
        self.max_rel = max(self.max_rel, float(np.fmax.reduce(relative, initial=0.0)))

    def _room(self, use: str, like: np.ndarray) -> np.ndarray | None:
        return self.room(use, like.size) if like.dtype == np.float64 else None

    def _add_distances(self, difference: np.ndarray, residual: np.ndarray) -> None:
        known = np.isfinite(residual)
        if not known.all():
            difference, residual = difference[known], residual[known]
        if not residual.size:
            return
        distance = difference - residual
        self.with_truth += residual.size
        self.floor_squares += _dot(residual, residual)
        self.distance_squares += _dot(distance, distance)
        self.floor_max = max(self.floor_max, float(np.abs(residual).max()))
        self.distance_max = max(self.distance_max, float(np.abs(distance).max()))


def _dot(first: np.ndarray, second: np.ndarray) -> float:
    """The sum of products of two vectors, by BLAS, a block at a time."""
    if first.dtype.kind == "c":
        return _dot(first.real, second.real) + _dot(first.imag, second.imag)
    if first.size <= BLOCK:
        return float(np.vecdot(first, second))
    whole = first.size - first.size % BLOCK
    blocks = np.vecdot(first[:whole].reshape(-1, BLOCK), second[:whole].reshape(-1, BLOCK))
    return sum(blocks.tolist(), _dot(first[whole:], second[whole:]) if whole < first.size else 0.0)
