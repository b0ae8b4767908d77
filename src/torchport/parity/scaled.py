"""Values without a truth, judged by tolerances whose absolute part is scaled to the elements' magnitude.

An absolute tolerance that is meant for numbers near 1 lets anything pass that is small. So it is scaled: to the largest
number of the tensor or, in float64, of the elements of like magnitude, but never up. A number that is small because
large ones cancelled is as wrong as these: what a coarser arithmetic computes tells by how much.
"""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict

from torchport.parity import dtypes
from torchport.parity.bins import MULTIPLE, bin_of, groups_of, leeway

_NARROW_STEP = dtypes.rounding_step("float32")
"""The rounding step of the arithmetic that float64 is emulated in."""


class Scaled(BaseModel):
    """Errors measured by tolerances whose absolute part is scaled."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    excess: float
    """The largest error as a multiple of what is allowed at its place."""
    mismatch_pct: float
    """The share of the elements that are outside."""


def errors_by_scale(
    golden: np.ndarray,
    candidate: np.ndarray,
    coarser: np.ndarray | None,
    tolerances: dtypes.Tolerances,
    dtype: str,
) -> Scaled:
    """The errors of a candidate by tolerances at the scale of its elements; `dtype` is that of `golden`."""
    with np.errstate(all="ignore"):
        error = np.abs(candidate - golden)
        magnitudes = np.abs(golden)
        finite = np.isfinite(error)
        error, magnitudes = error[finite], magnitudes[finite]
        allowed = tolerances.rtol * magnitudes
        is_wide = dtype in dtypes.WIDEST
        spread = None if coarser is None else np.nan_to_num(np.abs(coarser - golden)[finite], posinf=0.0)
        if spread is not None and is_wide:
            spread = spread * (dtypes.rounding_step(dtype) / _NARROW_STEP)
        for inside in _alike(magnitudes) if is_wide else [slice(None)]:
            allowed[inside] += tolerances.atol * min(1.0, float(magnitudes[inside].max(initial=0.0)))
            if spread is not None:
                own = spread[inside]
                allowed[inside] += 2 * MULTIPLE * leeway(own.size) * own.max(initial=0.0)
        # Only 0 / 0 gives a NaN here, and an error of 0 is none.
        ratios = np.nan_to_num(error / allowed, posinf=np.inf)
    share = np.count_nonzero(ratios > 1.0) / golden.size if golden.size else 0.0
    return Scaled(excess=float(ratios.max(initial=0.0)), mismatch_pct=100.0 * share)


def _alike(magnitudes: np.ndarray) -> list[np.ndarray]:
    """The places of the elements of like magnitude."""
    places = bin_of(magnitudes)
    groups = groups_of(np.bincount(places, minlength=1))
    return [np.isin(places, group) for group in groups]
