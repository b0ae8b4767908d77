"""How far a graph may be from its model: the rule for a tolerance, and the tolerances if a user gives none.

A tolerance is relative to the largest magnitude of a layer: 1e-5 allows an error of 1e-5 if its values reach 1.
`python -m benchmarks.bench_marble_tolerance` prints the errors that the defaults come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torchport.errors import UsageError
from torchport.parity import dtypes
from torchport.parity.metrics import Metrics
from torchport.parity.tolerance import Fixed, Verdict

DEFAULTS = {"cpu": 1e-5, "gpu": 2e-3}
"""For float32. Other dtypes have them in proportion to their rounding step; coarser ones keep half of their digits.

That of the CPU is eight times the largest error that the benchmark measured, 1.2e-6 on resnet18 by messages.
That of the GPU is eight times 2.3e-4, measured on an LSTM by messages beside cuDNN, whose recurrent layers multiply in
TF32 unless torch is told not to; the largest error of the other models was 5.5e-7.
"""
_FIX = "Give a number such as 1e-5 that is finite and not negative."


def checked_tolerance(given: object, label: str = "the tolerance") -> float:
    """The tolerance that a user gave, if it is one."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not 0 <= float(given) < math.inf:  # type: ignore[arg-type]
        raise UsageError("TP0801", f"{label} is {given!r}", fix=_FIX)
    return float(given)  # type: ignore[arg-type]


def default_tolerance(device: str, dtype: str = "float32") -> float:
    """The tolerance for a kind of device, such as `cpu` or `cuda`, and a dtype."""
    tolerance = DEFAULTS["cpu" if device == "cpu" else "gpu"]
    if dtypes.class_of(dtype) in ("bool", "int"):
        return 0.0
    step, usual = dtypes.rounding_step(dtype), dtypes.rounding_step("float32")
    in_proportion = tolerance * step / usual
    return min(in_proportion, math.sqrt(step)) if step > usual else in_proportion


@dataclass(frozen=True)
class OfLargest:
    """Passes a layer whose largest error is within a share of its largest magnitude. A NaN never passes."""

    tolerance: float
    rtol: ClassVar[None] = None
    atol: ClassVar[None] = None

    @property
    def name(self) -> str:
        return f"within {self.tolerance:g} of the largest magnitude"

    def judge(self, metrics: Metrics) -> Verdict:
        usual = Fixed(metrics.rtol, metrics.atol)
        verdict = usual.judge(metrics)
        if metrics.nan_candidate:
            reason = f"NaN at {metrics.nan_candidate} of {metrics.numel} places"
            return Verdict(False, self.name, math.inf, verdict.reason or reason)
        if (
            verdict.rule != usual.name
        ):  # Shapes, infinities and integers are judged alike, whatever the tolerance.
            return verdict
        allowed = max(self.tolerance * metrics.golden_max, dtypes.least_step(metrics.golden_dtype))
        ratio = metrics.max_abs / allowed
        passed = ratio <= 1.0  # False for NaN.
        share = metrics.max_abs / max(metrics.golden_max, dtypes.least_step(metrics.golden_dtype))
        reason = f"an error of {share:.3g} of the largest magnitude, of which {self.tolerance:g} is allowed"
        return Verdict(passed, self.name, ratio, None if passed else reason)
