"""Values that were judged: each with the call at which it showed, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from torchport.parity import dtypes
from torchport.parity.choices import half_of_the_digits
from torchport.parity.elements import Elements, wrong_elements
from torchport.parity.metrics import Metrics
from torchport.parity.result import Failure, Measured
from torchport.parity.tolerance import Verdict
from torchport.trace.plan import Call


class Finding(NamedTuple):
    """One value that was judged: the call at which it showed, which value it is, and the verdict."""

    call: str
    what: str
    passed: bool
    reason: str | None
    measured: Measured | None
    key: str | None
    """None if what is wrong is no value: a call that is too many, for instance."""
    lacks_truth: bool = False
    """Whether the rule asked for the truth of the value, and it is not known."""
    proves_little: bool = False
    """Whether the value passes in spite of an error that would be seen, because eager PyTorch has such a one."""

    @property
    def is_evidence(self) -> bool:
        return self.measured is not None and self.measured.numel > 0

    @property
    def diverges(self) -> bool:
        """Whether it fails because it is another value, and not because there is no value to compare with."""
        return not self.passed and not self.is_nan_everywhere

    @property
    def is_nan_everywhere(self) -> bool:
        """Whether the original and the candidate agree in that there is no number."""
        return self.measured is not None and self.measured.is_nan_everywhere


def lacks_truth_of(metrics: Metrics) -> bool:
    """Whether a value floats and its truth is not known, as that of a float64 or complex value never is."""
    if metrics.numel == 0 or metrics.incomparable is not None:
        return False
    if dtypes.class_of(metrics.golden_dtype) in ("bool", "int"):
        return False
    return metrics.noise is None or metrics.noise.unknown > 0


def proves_little(metrics: Metrics) -> bool:
    """Whether eager PyTorch itself loses more than half of the digits, so that a candidate may do so, too."""
    return metrics.noise is not None and metrics.noise.floor_rms > half_of_the_digits(metrics)


def elements_of(
    golden: torch.Tensor,
    candidate: torch.Tensor,
    distance: torch.Tensor | None,
    metrics: Metrics,
    verdict: Verdict,
) -> Elements | None:
    """The elements that are wrong, if a bin is out of bounds."""
    bin = None if metrics.noise is None else metrics.noise.bin
    if bin is None or verdict.bin_limit is None or distance is None:
        return None
    return wrong_elements(golden, candidate, distance, bin, verdict.bin_limit)


def missing(call: Call, what: str, key: str) -> Finding:
    return Finding(call.name, what, False, f"the port computed no value for {key}", None, key)


def of_another_kind(
    call: Call, what: str, key: str, golden: torch.Tensor, candidate: torch.Tensor
) -> Finding | None:
    """A finding if random numbers are not as many as they must be, or not of their dtype; else None."""
    known, found = (f"{dtypes.name_of(one.dtype)} {list(one.shape)}" for one in (golden, candidate))
    if golden.shape == candidate.shape and dtypes.comparable(golden.dtype, candidate.dtype):
        return None
    return Finding(call.name, what, False, f"draws {found}, and the model draws {known}", None, key)


def too_many(call: Call, name: str, reason: str) -> Finding:
    return Finding(call.name, f"call {name}", False, reason, None, None)


def failure_of(finding: Finding) -> Failure:
    is_missing = finding.measured is None
    return Failure(
        key=finding.key or finding.call, what=finding.what, reason=finding.reason or "", is_missing=is_missing
    )


def vacuous(finding: Finding) -> Finding:
    reason = "every tensor is empty, so nothing is proven"
    assert finding.measured is not None
    measured = finding.measured.model_copy(update={"passed": False, "reason": reason})
    return finding._replace(passed=False, reason=reason, measured=measured)


def worst(found: Sequence[Finding]) -> Measured | None:
    """The value that failed first, or else the one nearest its limit; None if that value is missing."""
    for finding in found:
        if not finding.passed:
            return finding.measured
    measured = [finding.measured for finding in found if finding.measured is not None]
    return max(measured, key=lambda one: one.ratio or 0.0, default=None)
