"""The rules by which a measured difference passes or fails; a verdict names the rule it used.

Whatever the rule: tensors that cannot be compared fail, a NaN or Inf that is not at the same place
in both fails, a golden tensor that is NaN everywhere proves nothing and fails, and integers and
bools pass only if they are equal.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

from torchport.parity import dtypes
from torchport.parity.bins import FEW, MULTIPLE, Bin, leeway
from torchport.parity.metrics import Metrics, Noise
from torchport.parity.percent import percent


class Verdict(NamedTuple):
    """Pass or fail, by which rule, how near the limit (1 is at the limit), and why if it failed."""

    passed: bool
    rule: str
    ratio: float
    reason: str | None = None
    bin_limit: float | None = None
    """If the elements of one bin are out of bounds, the distance from the truth above which one is wrong."""
    judged: float | None = None
    """The distance that `ratio` is a share of the limit of: from the truth, or from the golden value if that is the
    measure of the rule. None if it was not a matter of distances."""


class Rule(Protocol):
    """A way to judge the metrics of one tensor, measured with `rtol` and `atol`."""

    @property
    def name(self) -> str: ...

    @property
    def rtol(self) -> float | None: ...

    @property
    def atol(self) -> float | None: ...

    def judge(self, metrics: Metrics) -> Verdict: ...


@dataclass(frozen=True)
class NoiseFloor:
    """Passes a candidate that is about as near to the float64 truth as eager PyTorch itself is.

    The floor is the golden tensor's own distance from the truth, by RMS and by maximum, and at
    least one rounding step u of its dtype at its scale: u * rms(golden) and u * max|golden|, with
    u = eps / 2 (2**-24 for float32), and never less than the dtype's smallest number. A candidate
    passes when its distance from the truth is within `multiple` floors, by RMS and by maximum.

    The same must hold for the elements among their like: those whose truth is of one magnitude have
    a floor of their own (`bins`), which they must be within by RMS, and within twice as many by maximum.

    Where the candidate's arithmetic is coarser than eager PyTorch's and what it computes is known, that
    value's distance from the truth is the floor, if it is larger.

    Fewer than `FEW` elements may be more floors from the truth, the more the fewer they are: eager PyTorch may be
    near it by luck alone.

    If no truth is known (it was not recorded, or the dtype is float64 or complex128), the tolerances are those of
    torch.testing.assert_close, their absolute part scaled to the magnitude of the elements (`scaled`).
    """

    multiple: float = MULTIPLE
    rtol: ClassVar[None] = None
    atol: ClassVar[None] = None

    @property
    def name(self) -> str:
        return f"noise floor x {self.multiple:g}"

    def judge(self, metrics: Metrics) -> Verdict:
        always = _judge_without_rule(metrics)
        if always is not None:
            return always
        if metrics.noise is None or metrics.noise.unknown:
            return _usual(metrics)
        return self._judge_by_noise(metrics, metrics.noise)

    def _judge_by_noise(self, metrics: Metrics, noise: Noise) -> Verdict:
        floor_rms, floor_max = _floors(metrics, noise)
        by_rms, by_max = noise.candidate_rms / floor_rms, noise.candidate_max / floor_max
        is_by_rms = by_rms >= by_max
        kind, floors = ("RMS", by_rms) if is_by_rms else ("maximum", by_max)
        judged = noise.candidate_rms if is_by_rms else noise.candidate_max
        reason = f"{floors:.3g} times as far from the float64 truth as eager PyTorch, by {kind}"
        verdict = _within(floors / self._limit(metrics), self._name_for(metrics), reason, judged)
        if noise.bin is None:
            return verdict
        in_bin = self._judge_bin(noise.bin, metrics)
        said, nearest = (
            in_bin if verdict.passed else verdict,
            max(verdict, in_bin, key=lambda one: one.ratio),
        )
        return said._replace(ratio=nearest.ratio, judged=nearest.judged, bin_limit=in_bin.bin_limit)

    def _limit(self, metrics: Metrics) -> float:
        """The floors that a tensor may be from the truth: more of a few elements, as of a bin with as few."""
        return self.multiple * leeway(metrics.numel) if metrics.numel < FEW else self.multiple

    def _name_for(self, metrics: Metrics) -> str:
        if metrics.numel >= FEW:
            return self.name
        return f"noise floor x {self._limit(metrics):.3g} (as there are few elements)"

    def _judge_bin(self, bin: Bin, metrics: Metrics) -> Verdict:
        by_rms, by_max = bin.in_floors(metrics.golden_dtype)
        is_by_rms = by_rms >= by_max / 2
        kind, floors = ("RMS", by_rms) if is_by_rms else ("maximum", by_max)
        judged = bin.candidate_rms if is_by_rms else bin.candidate_max
        which = f"the {bin.count} elements of magnitude {bin.low:.3g} to {bin.high:.3g}"
        reason = f"{floors:.3g} times as far from the float64 truth as eager PyTorch, by {kind} over {which}"
        ratio = bin.ratio(metrics.golden_dtype, self.multiple)
        verdict = _within(ratio, self._name_for(metrics), reason, judged)
        floor_rms, floor_max = bin.floors(metrics.golden_dtype)
        limit = max(2 * self.multiple * floor_rms, floor_max)
        return verdict if verdict.passed else verdict._replace(bin_limit=limit)

    def allowance(self, golden: Metrics) -> float:
        """The largest error that a candidate which passes can have: `golden` is measured against itself.

        The candidate may be `multiple` floors from the truth, and the golden value is one floor from it.
        """
        if dtypes.class_of(golden.golden_dtype) in ("bool", "int"):
            return 0.0
        if golden.noise is None or golden.noise.unknown:
            return scaled_atol(golden) + golden.rtol * _finite(golden.golden_max)
        return self._by_floor(golden, golden.noise)

    def _by_floor(self, golden: Metrics, noise: Noise) -> float:
        return (self._limit(golden) + 1) * _finite(_floors(golden, noise)[1])


@dataclass(frozen=True)
class Fixed:
    """Passes if every element is within atol + rtol * |golden|, as assert_close does.

    A tolerance that is None is that of assert_close for the dtypes. The metrics must have been
    measured with the same tolerances, as `compare` does if it is given them.
    """

    rtol: float | None = None
    atol: float | None = None

    @property
    def name(self) -> str:
        rtol, atol = ("dtype default" if x is None else f"{x:g}" for x in (self.rtol, self.atol))
        return f"rtol {rtol}, atol {atol}"

    def judge(self, metrics: Metrics) -> Verdict:
        always = _judge_without_rule(metrics)
        if always is not None:
            return always
        rule = Fixed(metrics.rtol, metrics.atol).name
        if metrics.mismatch_pct == 0.0:
            return Verdict(True, rule, metrics.excess, judged=metrics.max_abs)
        reason = f"{percent(metrics.mismatch_pct / 100)} of the elements are outside {rule}"
        return Verdict(False, rule, metrics.excess, reason, judged=metrics.max_abs)


@dataclass(frozen=True)
class Drift:
    """Passes an accumulated error as long as half of the dtype's digits survive.

    This is the rule for chained outputs: every layer adds its rounding to that of the layers
    before it, so that the floor of no single layer applies. The limit is sqrt(u) of the tensor's
    scale, u being the dtype's rounding step: rms error <= sqrt(u) * rms(golden) and maximum error
    <= sqrt(u) * max|golden|. That is 2.4e-4 for float32, 2.2e-2 for float16, 6.3e-2 for bfloat16
    and 1.1e-8 for float64. It is generous on purpose: the culprit is found by own errors, and this
    rule only says whether the errors that remain add up to something a user would notice.

    If the whole model in float64 is known, the candidate is measured against that, and may also be
    `multiple` times as far from it as eager PyTorch is, or as the reference is in the candidate's
    arithmetic: a model that loses digits by itself, such as `(x + 1e6) - 1e6`, loses them wherever it runs.
    """

    multiple: float = 4.0

    rtol: ClassVar[None] = None
    atol: ClassVar[None] = None

    @property
    def name(self) -> str:
        return "drift within half the digits"

    def judge(self, metrics: Metrics) -> Verdict:
        always = _judge_without_rule(metrics)
        if always is not None:
            return always
        dtype = metrics.golden_dtype
        share, least = math.sqrt(dtypes.rounding_step(dtype)), dtypes.least_step(dtype)
        by_rms = metrics.rmse / max(share * metrics.golden_rms, least)
        by_max = metrics.max_abs / max(share * metrics.golden_max, least)
        rule = f"drift within {share:.2g} of the scale"
        reason = f"the error has grown to {share * max(by_rms, by_max):.3g} of the scale"
        judged = metrics.rmse if by_rms >= by_max else metrics.max_abs
        verdict = _within(max(by_rms, by_max), rule, reason, judged)
        if verdict.passed or metrics.noise is None or metrics.noise.unknown:
            return verdict
        return self._beside_the_reference(metrics.noise, verdict, least)

    def _beside_the_reference(self, noise: Noise, verdict: Verdict, least: float) -> Verdict:
        """The verdict by the distance of eager PyTorch from the whole model in float64, if that is kinder."""
        floors = max(
            noise.candidate_rms / max(noise.floor_rms, noise.arithmetic_rms, least),
            noise.candidate_max / max(noise.floor_max, noise.arithmetic_max, least),
        )
        whose = "the same arithmetic" if noise.arithmetic_rms > 2 * noise.floor_rms else "eager PyTorch"
        rule = f"drift within {self.multiple:g} times that of {whose}"
        beside = _within(floors / self.multiple, rule, verdict.reason or "", noise.candidate_rms)
        return beside if beside.passed else verdict


def _floors(metrics: Metrics, noise: Noise) -> tuple[float, float]:
    """The noise floor of a golden tensor, by RMS and by maximum."""
    dtype = metrics.golden_dtype
    step, least = dtypes.rounding_step(dtype), dtypes.least_step(dtype)
    return (
        max(noise.floor_rms, noise.arithmetic_rms, step * metrics.golden_rms, least),
        max(noise.floor_max, noise.arithmetic_max, step * metrics.golden_max, least),
    )


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def scaled_atol(metrics: Metrics) -> float:
    """The absolute tolerance, scaled to the largest number, but never up."""
    return metrics.atol * min(1.0, _finite(metrics.golden_max))


def _usual(metrics: Metrics) -> Verdict:
    """The verdict on a value without a truth, by the tolerances of assert_close at the scale of its elements."""
    rule = f"rtol {metrics.rtol:g}, atol {metrics.atol:g} of the scale (no float64 truth)"
    excess = _scaled_excess(metrics)
    share = metrics.mismatch_pct if metrics.scaled is None else metrics.scaled.mismatch_pct
    reason = f"{percent(share / 100)} of the elements are outside {rule}"
    return _within(excess, rule, reason, metrics.max_abs)


def _scaled_excess(metrics: Metrics) -> float:
    """That which was measured, or the largest that it can be."""
    if metrics.scaled is not None:
        return metrics.scaled.excess
    if metrics.excess == 0.0:
        return 0.0
    scale = min(1.0, _finite(metrics.golden_max))
    return metrics.excess / scale if scale else math.inf


def _within(ratio: float, rule: str, reason: str, judged: float | None = None) -> Verdict:
    passed = ratio <= 1.0  # False for NaN, which must never pass.
    return Verdict(passed, rule, ratio, None if passed else reason, judged=judged)


def _judge_without_rule(metrics: Metrics) -> Verdict | None:
    """The verdict that holds whatever the tolerance is, or None if the rule has to decide."""
    if metrics.incomparable is not None:
        return Verdict(False, "comparable", math.inf, metrics.incomparable)
    if metrics.numel == 0:
        return Verdict(True, "both empty", 0.0)
    if metrics.nan_mismatches or metrics.inf_mismatches:
        return Verdict(False, "NaN and Inf by position", math.inf, _nonfinite_reason(metrics))
    if metrics.nan_golden == metrics.numel:
        reason = "NaN everywhere, in the original too, so nothing is proven"
        return Verdict(False, "NaN and Inf by position", math.inf, reason)
    if dtypes.class_of(metrics.golden_dtype) in ("bool", "int"):
        ratio = 0.0 if metrics.mismatch_pct == 0.0 else math.inf
        return _within(ratio, "exact", f"{percent(metrics.mismatch_pct / 100)} of the elements differ")
    if math.isnan(metrics.max_abs):
        return Verdict(True, "NaN and Inf by position", 0.0)
    return None


def _nonfinite_reason(metrics: Metrics) -> str:
    counts = []
    if metrics.nan_mismatches:
        counts.append(f"NaN on one side only at {metrics.nan_mismatches} of {metrics.numel}")
    if metrics.inf_mismatches:
        counts.append(f"Inf not matched at {metrics.inf_mismatches} of {metrics.numel}")
    return " and ".join(counts) + " places"
