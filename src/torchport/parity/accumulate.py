"""Running sums over pairs of chunks, in float64: everything that a comparison is made of."""

import math

import numpy as np


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
        self._add_errors(wide_golden, wide_candidate, error, start, None)

    def _add_floating(
        self,
        start: int,
        golden: np.ndarray,
        candidate: np.ndarray,
        residual: np.ndarray | None,
    ) -> None:
        finite = np.isfinite(golden) & np.isfinite(candidate)
        places = None
        if not finite.all():
            self._add_nonfinite(start, golden, candidate, finite)
            places = np.flatnonzero(finite)
            golden, candidate = golden[finite], candidate[finite]
            residual = None if residual is None else residual[finite]
        difference = candidate - golden
        self._add_errors(golden, candidate, np.abs(difference), start, places)
        if residual is not None:
            self._add_distances(difference, residual)

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

    def _add_errors(
        self,
        golden: np.ndarray,
        candidate: np.ndarray,
        error: np.ndarray,
        start: int,
        places: np.ndarray | None,
    ) -> None:
        if not error.size:
            return
        magnitude = np.abs(golden)
        self.finite += error.size
        self.absolute_error += float(error.sum())
        self.squared_error += _dot(error, error)
        self.golden_squares += _dot(magnitude, magnitude)
        self.candidate_squares += _dot(candidate, candidate)
        self.product += _dot(golden, candidate)
        self.golden_max = max(self.golden_max, float(magnitude.max()))
        worst = int(error.argmax())
        if error[worst] > self.max_abs:
            self.max_abs = float(error[worst])
            self._largest_error = start + (worst if places is None else int(places[worst]))
        if self.max_abs > 0.0:
            allowed = self.atol + self.rtol * magnitude
            self.mismatches += int(np.count_nonzero(error > allowed))
            self.excess = max(self.excess, _largest_ratio(error, allowed))
            self.max_rel = max(self.max_rel, _largest_ratio(error, magnitude))

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
    # Not np.dot: its threads wait for torch's on a busy machine, and cost ten times what they save.
    if first.dtype.kind == "c":
        return _dot(first.real, second.real) + _dot(first.imag, second.imag)
    return float(np.einsum("i,i->", first, second))


def _largest_ratio(error: np.ndarray, limit: np.ndarray) -> float:
    """The largest error / limit, where no error is 0 and an error with no limit is infinite."""
    ratio = error / limit
    # 0 / 0 is the only way to a NaN here.
    return float(np.fmax.reduce(ratio, initial=0.0))
