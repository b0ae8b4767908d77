"""How far a candidate tensor is from the golden one, in one pass over both, a chunk at a time."""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from torchport.parity import dtypes
from torchport.parity.accumulate import Sums
from torchport.parity.bins import Bin
from torchport.parity.bits import bits_of, numbers
from torchport.parity.scaled import Scaled, errors_by_scale
from torchport.parity.strays import Distances, worst_bin

if TYPE_CHECKING:
    import torch

    TensorLike = torch.Tensor | np.ndarray
CHUNK = 1 << 16
"""Elements that are compared at a time: the float64 copies of a chunk fit in the cache of a processor."""
FEW = 64
"""Elements that are compared first, because tensors that differ mostly differ at once."""


class Form(NamedTuple):
    """The dtype and the shape of a tensor, which are known without reading it."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return dtypes.DTYPES[self.dtype].itemsize


class Noise(BaseModel):
    """Distances from the float64 truth: of the golden tensor (the floor) and of the candidate."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    floor_rms: float
    floor_max: float
    candidate_rms: float
    candidate_max: float
    unknown: int
    """Elements that are finite in both tensors but have no finite truth."""
    arithmetic_rms: float = 0.0
    """The distance of what a coarser arithmetic computes, if that was measured; 0 if not."""
    arithmetic_max: float = 0.0
    bin: Bin | None = None
    """The elements of like magnitude that are farthest from the truth, in floors of their own."""


class Metrics(BaseModel):
    """The difference of two tensors. Errors are taken over the elements that are finite in both.

    NaN and Inf are compared by position: both NaN, or both the same Inf, is equal; anything else
    is counted in `nan_mismatches` or `inf_mismatches`. Errors are NaN when no element is finite
    in both, and when the tensors cannot be set against each other (`incomparable` says why).
    `mismatch_pct` counts the elements outside `rtol` and `atol`, and the NaN and Inf mismatches.
    In JSON a number that is not finite is the string "NaN", "Infinity" or "-Infinity".
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    max_abs: float
    mean_abs: float
    max_rel: float
    mse: float
    rmse: float
    cosine: float
    mismatch_pct: float
    worst_index: tuple[int, ...] | None
    nan_golden: int
    nan_candidate: int
    nan_mismatches: int
    inf_mismatches: int
    numel: int
    golden_rms: float
    golden_max: float
    rtol: float
    atol: float
    excess: float
    """The largest error as a multiple of what rtol and atol allow at its place."""
    golden_shape: tuple[int, ...]
    candidate_shape: tuple[int, ...]
    golden_dtype: str
    candidate_dtype: str
    noise: Noise | None = None
    incomparable: str | None = None
    scaled: Scaled | None = None
    """Errors by the same tolerances with the absolute part scaled to the elements' magnitude, if that was asked for."""


def compare(
    golden: TensorLike,
    candidate: TensorLike,
    residual: TensorLike | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    coarser: TensorLike | None = None,
    by_scale: bool = False,
    chunk: int = CHUNK,
) -> Metrics:
    """Measure `candidate` against `golden`, and both against the truth, `golden + residual`.

    `coarser` is what the candidate's arithmetic computes if it is coarser than that of `golden`.

    Without `rtol` or `atol`, those of torch.testing.assert_close for the dtypes are used. With `by_scale`, tensors that
    differ and have no truth are also measured by these with the absolute part scaled (`scaled`).
    Integers and bools are compared exactly, whatever the tolerances.
    """
    golden_tensor, candidate_tensor = _as_tensor(golden), _as_tensor(candidate)
    pair = ComparedPair(_form(golden_tensor), _form(candidate_tensor), rtol=rtol, atol=atol)
    if pair.incomparable is not None:
        return pair.metrics(pair.sums())
    truth = _usable_residual(golden_tensor, residual)
    golden_bits = bits_of(golden_tensor)
    candidate_bits = golden_bits if candidate is golden else bits_of(candidate_tensor)
    distances = None if truth is None else numbers(bits_of(truth), dtypes.name_of(truth.dtype))
    coarse = None if coarser is None else _wide(_as_tensor(coarser))
    sums = pair.sums()
    if coarse is None and pair.golden.dtype == pair.candidate.dtype and _equal(golden_bits, candidate_bits):
        sums.add_equal(numbers(golden_bits, pair.golden.dtype), distances)
        return pair.metrics(sums, with_noise=truth is not None)
    distances = None if distances is None else _widened(distances)
    for start in range(0, pair.numel, chunk):
        here = slice(start, start + chunk)
        parts = (None if whole is None else whole[here] for whole in (distances, coarse))
        pair.add(sums, start, golden_bits[here], candidate_bits[here], *parts)
    metrics = pair.metrics(sums, with_noise=truth is not None)
    given = numbers(golden_bits, pair.golden.dtype), numbers(candidate_bits, pair.candidate.dtype)
    if by_scale and (metrics.noise is None or metrics.noise.unknown) and _has_fractions(pair.golden.dtype):
        wide = _widened(given[0]), _widened(given[1])
        scaled = errors_by_scale(*wide, coarse, pair.tolerances, pair.golden.dtype)
        metrics = metrics.model_copy(update={"scaled": scaled})
    if metrics.noise is None or sums.bins is None or distances is None:
        return metrics
    looked_at = partial(Distances.of, *given, distances, coarse)
    worst = worst_bin(sums.bins.joined(), pair.golden.dtype, looked_at)
    return metrics.model_copy(update={"noise": metrics.noise.model_copy(update={"bin": worst})})


class ComparedPair:
    """Two tensors to be compared, whose bits are added a chunk at a time."""

    def __init__(self, golden: Form, candidate: Form, *, rtol: float | None, atol: float | None) -> None:
        self.golden, self.candidate = golden, candidate
        self.tolerances = _tolerances(golden.dtype, candidate.dtype, rtol, atol)
        self.incomparable = _why_incomparable(golden, candidate)

    @property
    def numel(self) -> int:
        """The number of elements to compare: 0 if the tensors cannot be compared."""
        return 0 if self.incomparable is not None else self.golden.numel

    @property
    def itemsize(self) -> int:
        """The bytes of an element of both tensors together."""
        return self.golden.itemsize + self.candidate.itemsize

    def sums(self) -> Sums:
        return Sums(*self.tolerances)

    def add(
        self,
        sums: Sums,
        start: int,
        golden: np.ndarray,
        candidate: np.ndarray,
        residual: np.ndarray | None = None,
        coarser: np.ndarray | None = None,
    ) -> None:
        """Add flat chunks of bits, and of float64 numbers, to `sums`; their first element has the index `start`."""
        if residual is None and self.golden.dtype == self.candidate.dtype and _equal(golden, candidate):
            sums.add_equal(numbers(golden, self.golden.dtype))
        else:
            given = numbers(golden, self.golden.dtype), numbers(candidate, self.candidate.dtype)
            sums.add(start, *given, residual, coarser)

    def metrics(self, sums: Sums, *, with_noise: bool = False) -> Metrics:
        if self.incomparable is not None:
            return _incomparable(self, self.incomparable)
        return _finish(sums, self, with_noise)


def _equal(golden: np.ndarray, candidate: np.ndarray) -> bool:
    if golden is candidate:
        return True
    return bool((golden[:FEW] == candidate[:FEW]).all()) and bool((golden == candidate).all())


def _form(tensor: torch.Tensor) -> Form:
    return Form(dtypes.name_of(tensor.dtype), tuple(tensor.shape))


def _as_tensor(value: TensorLike) -> torch.Tensor:
    import torch  # Not above: files are compared without torch.

    if isinstance(value, torch.Tensor):
        return value
    with warnings.catch_warnings():
        # torch warns of read-only arrays, but nothing here writes to them.
        warnings.filterwarnings("ignore", message=".*not writable.*")
        return torch.from_numpy(np.asarray(value))


def _tolerances(golden: str, candidate: str, rtol: float | None, atol: float | None) -> dtypes.Tolerances:
    if dtypes.class_of(golden) in ("bool", "int"):
        return dtypes.EXACT
    usual = dtypes.usual_tolerances(golden, candidate)
    return dtypes.Tolerances(usual.rtol if rtol is None else rtol, usual.atol if atol is None else atol)


def _why_incomparable(golden: Form, candidate: Form) -> str | None:
    if golden.shape != candidate.shape:
        return f"shape {list(candidate.shape)} where {list(golden.shape)} was expected"
    if not dtypes.comparable(golden.dtype, candidate.dtype):
        return f"dtype {candidate.dtype} where {golden.dtype} was expected"
    return None


def _usable_residual(golden: torch.Tensor, residual: TensorLike | None) -> torch.Tensor | None:
    """The residual as a tensor, or None if the golden tensor has no wider dtype to be measured in."""
    name = dtypes.name_of(golden.dtype)
    if residual is None or name in dtypes.WIDEST or not _has_fractions(name):
        return None
    tensor = _as_tensor(residual)
    if tensor.shape != golden.shape:
        raise ValueError(f"residual has shape {tensor.shape}, golden has {golden.shape}")
    return tensor


def _finish(sums: Sums, pair: ComparedPair, with_noise: bool) -> Metrics:
    worst = None
    if sums.worst_at is not None:
        worst = tuple(int(i) for i in np.unravel_index(sums.worst_at, pair.golden.shape))
    mse = sums.mean(sums.squared_error)
    noise = None
    if with_noise:
        noise = Noise(
            floor_rms=math.sqrt(sums.truth_mean(sums.floor_squares)),
            floor_max=sums.floor_max,
            candidate_rms=math.sqrt(sums.truth_mean(sums.distance_squares)),
            candidate_max=sums.distance_max,
            unknown=sums.finite - sums.with_truth,
            arithmetic_rms=math.sqrt(sums.truth_mean(sums.coarser_squares)),
            arithmetic_max=sums.coarser_max,
        )
    return Metrics(
        max_abs=sums.largest(sums.max_abs),
        mean_abs=sums.mean(sums.absolute_error),
        max_rel=sums.largest(sums.max_rel),
        mse=float(mse),
        rmse=_root(mse),
        cosine=sums.cosine(),
        mismatch_pct=100.0 * sums.mismatches / sums.count if sums.count else 0.0,
        worst_index=worst,
        nan_golden=sums.nan_golden,
        nan_candidate=sums.nan_candidate,
        nan_mismatches=sums.nan_mismatches,
        inf_mismatches=sums.inf_mismatches,
        golden_rms=_root(sums.mean(sums.golden_squares)),
        golden_max=sums.largest(sums.golden_max),
        excess=sums.largest(sums.excess),
        noise=noise,
        **_described(pair),
    )


def _root(mean_square: float) -> float:
    """The square root, also of a number beyond float64."""
    return float(np.sqrt(mean_square))


def _wide(tensor: torch.Tensor) -> np.ndarray:
    return _widened(numbers(bits_of(tensor), dtypes.name_of(tensor.dtype)))


def _widened(values: np.ndarray) -> np.ndarray:
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _has_fractions(dtype: str) -> bool:
    return dtypes.class_of(dtype) in ("float", "complex")


def _incomparable(pair: ComparedPair, reason: str) -> Metrics:
    errors = ("max_abs", "mean_abs", "max_rel", "mse", "rmse", "cosine", "excess")
    counts = ("nan_golden", "nan_candidate", "nan_mismatches", "inf_mismatches")
    unknown: dict[str, Any] = dict.fromkeys((*errors, "golden_rms", "golden_max"), math.nan)
    unknown.update(dict.fromkeys(counts, 0))
    return Metrics(
        **unknown,
        mismatch_pct=100.0,
        worst_index=None,
        incomparable=reason,
        **_described(pair),
    )


def _described(pair: ComparedPair) -> dict[str, Any]:
    return {
        "numel": pair.golden.numel,
        "rtol": pair.tolerances.rtol,
        "atol": pair.tolerances.atol,
        "golden_shape": pair.golden.shape,
        "candidate_shape": pair.candidate.shape,
        "golden_dtype": pair.golden.dtype,
        "candidate_dtype": pair.candidate.dtype,
    }
