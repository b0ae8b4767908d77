"""How far a candidate tensor is from the golden one, in one pass over both, a chunk at a time."""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from torchport.parity import dtypes
from torchport.parity.accumulate import Sums

TensorLike = torch.Tensor | np.ndarray
CHUNK = 1 << 15
"""Elements at a time: a chunk's float64 copies fit a processor's cache."""


_KNOWN_TO_NUMPY = {
    torch.bfloat16: torch.float32,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e4m3fnuz: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.float8_e5m2fnuz: torch.float32,
    torch.complex32: torch.complex64,
}


class Noise(BaseModel):
    """Distances from the float64 truth: of the golden tensor (the floor) and of the candidate."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    floor_rms: float
    floor_max: float
    candidate_rms: float
    candidate_max: float
    unknown: int
    """Elements that are finite in both tensors but have no finite truth."""


class Metrics(BaseModel):
    """The difference of two tensors. Errors are over the elements that are finite in both.

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


def compare(
    golden: TensorLike,
    candidate: TensorLike,
    residual: TensorLike | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    chunk: int = CHUNK,
) -> Metrics:
    """Measure `candidate` against `golden`, and both against the truth, `golden + residual`.

    Without `rtol` or `atol`, those of torch.testing.assert_close for the dtypes are used.
    Integers and bools are compared exactly, whatever the tolerances.
    """
    golden_tensor, candidate_tensor = _as_tensor(golden), _as_tensor(candidate)
    tolerances = _tolerances(golden_tensor.dtype, candidate_tensor.dtype, rtol, atol)
    reason = _why_incomparable(golden_tensor, candidate_tensor)
    if reason is not None:
        return _incomparable(golden_tensor, candidate_tensor, tolerances, reason)
    truth = _usable_residual(golden_tensor, residual)
    sums = Sums(*tolerances)
    for start, parts in _chunks(golden_tensor, candidate_tensor, truth, chunk):
        sums.add(start, *parts)
    return _finish(sums, golden_tensor, candidate_tensor, tolerances, truth is not None)


def _as_tensor(value: TensorLike) -> torch.Tensor:
    if isinstance(value, torch.Tensor):
        return value.detach()
    with warnings.catch_warnings():
        # Read-only arrays are welcome: nothing here writes to them.
        warnings.filterwarnings("ignore", message=".*not writable.*")
        return torch.from_numpy(np.asarray(value))


def _tolerances(
    golden: torch.dtype, candidate: torch.dtype, rtol: float | None, atol: float | None
) -> dtypes.Tolerances:
    if dtypes.class_of(golden) in ("bool", "int"):
        return dtypes.EXACT
    usual = dtypes.usual_tolerances(golden, candidate)
    return dtypes.Tolerances(usual.rtol if rtol is None else rtol, usual.atol if atol is None else atol)


def _why_incomparable(golden: torch.Tensor, candidate: torch.Tensor) -> str | None:
    if golden.shape != candidate.shape:
        return f"shape {list(candidate.shape)} where {list(golden.shape)} was expected"
    if not dtypes.comparable(golden.dtype, candidate.dtype):
        found, expected = dtypes.name_of(candidate.dtype), dtypes.name_of(golden.dtype)
        return f"dtype {found} where {expected} was expected"
    return None


def _usable_residual(golden: torch.Tensor, residual: TensorLike | None) -> torch.Tensor | None:
    """The residual, if it tells of something more exact than the golden tensor is."""
    if residual is None or golden.dtype == torch.float64 or not golden.dtype.is_floating_point:
        return None
    tensor = _as_tensor(residual)
    if tensor.shape != golden.shape:
        raise ValueError(f"residual has shape {tensor.shape}, golden has {golden.shape}")
    return tensor


Parts = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def _chunks(
    golden: torch.Tensor,
    candidate: torch.Tensor,
    residual: torch.Tensor | None,
    size: int,
) -> Iterator[tuple[int, Parts]]:
    golden_flat, candidate_flat = golden.reshape(-1), candidate.reshape(-1)
    residual_flat = None if residual is None else residual.reshape(-1)
    for start in range(0, golden_flat.numel(), size):
        here = slice(start, start + size)
        truth = None if residual_flat is None else _array(residual_flat[here])
        yield start, (_array(golden_flat[here]), _array(candidate_flat[here]), truth)


def _array(part: torch.Tensor) -> np.ndarray:
    """Floats in the widest precision; integers and bools as they are, to be compared exactly."""
    part = part.cpu().resolve_conj().resolve_neg()
    array = part.to(_KNOWN_TO_NUMPY.get(part.dtype, part.dtype)).numpy()
    if array.dtype.kind in "fc":
        return array.astype(np.result_type(array.dtype, np.float64))
    return array


def _finish(
    sums: Sums,
    golden: torch.Tensor,
    candidate: torch.Tensor,
    tolerances: dtypes.Tolerances,
    with_noise: bool,
) -> Metrics:
    worst = None
    if sums.worst_at is not None:
        worst = tuple(int(i) for i in np.unravel_index(sums.worst_at, golden.shape))
    mse = sums.mean(sums.squared_error)
    noise = None
    if with_noise:
        noise = Noise(
            floor_rms=math.sqrt(sums.truth_mean(sums.floor_squares)),
            floor_max=sums.floor_max,
            candidate_rms=math.sqrt(sums.truth_mean(sums.distance_squares)),
            candidate_max=sums.distance_max,
            unknown=sums.finite - sums.with_truth,
        )
    return Metrics(
        max_abs=sums.largest(sums.max_abs),
        mean_abs=sums.mean(sums.absolute_error),
        max_rel=sums.largest(sums.max_rel),
        mse=mse,
        rmse=math.sqrt(mse),
        cosine=sums.cosine(),
        mismatch_pct=100.0 * sums.mismatches / sums.count if sums.count else 0.0,
        worst_index=worst,
        nan_golden=sums.nan_golden,
        nan_candidate=sums.nan_candidate,
        nan_mismatches=sums.nan_mismatches,
        inf_mismatches=sums.inf_mismatches,
        golden_rms=math.sqrt(sums.mean(sums.golden_squares)),
        golden_max=sums.largest(sums.golden_max),
        excess=sums.largest(sums.excess),
        noise=noise,
        **_described(golden, candidate, tolerances),
    )


def _incomparable(
    golden: torch.Tensor,
    candidate: torch.Tensor,
    tolerances: dtypes.Tolerances,
    reason: str,
) -> Metrics:
    errors = ("max_abs", "mean_abs", "max_rel", "mse", "rmse", "cosine", "excess")
    counts = ("nan_golden", "nan_candidate", "nan_mismatches", "inf_mismatches")
    unknown: dict[str, Any] = dict.fromkeys((*errors, "golden_rms", "golden_max"), math.nan)
    unknown.update(dict.fromkeys(counts, 0))
    return Metrics(
        **unknown,
        mismatch_pct=100.0,
        worst_index=None,
        incomparable=reason,
        **_described(golden, candidate, tolerances),
    )


def _described(
    golden: torch.Tensor, candidate: torch.Tensor, tolerances: dtypes.Tolerances
) -> dict[str, Any]:
    return {
        "numel": golden.numel(),
        "rtol": tolerances.rtol,
        "atol": tolerances.atol,
        "golden_shape": tuple(golden.shape),
        "candidate_shape": tuple(candidate.shape),
        "golden_dtype": dtypes.name_of(golden.dtype),
        "candidate_dtype": dtypes.name_of(candidate.dtype),
    }
