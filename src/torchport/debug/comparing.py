"""Two tensors compared: every measure of how far they are apart, and a verdict by tolerances."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torchport.errors import UsageError
from torchport.parity.dtypes import class_of, name_of
from torchport.parity.metrics import CHUNK, Metrics, compare
from torchport.parity.rulebook import NOISE_FLOOR, RuleBook, fixed_rule
from torchport.parity.tolerance import Fixed, Verdict

PLACES = 20
"""How many places of NaN, and of infinity, are named."""
Loss = Callable[[object], Tensor]


@dataclass(frozen=True)
class ComparisonConfig:
    """How tensors, and models, are compared."""

    rtol: float | None = None
    atol: float | None = None
    """With neither, models are held to the noise floor of float64, and tensors to assert_close's tolerances."""
    allowed_mismatch: float = 0.0
    """The percentage of elements that may be outside of the tolerances."""
    check_dtype: bool = True
    check_device: bool = False
    gradients: bool = True
    """Whether the backward pass is compared, too; if a model has nothing to differentiate, it is not."""
    loss: Loss | None = None
    """What makes a scalar of the model's outputs; without it, the backward pass starts with random gradients."""
    runs: int = 1
    """How often everything is run, for numbers that vary."""
    timeout_s: float | None = None
    """How long the backend may take for a compilation or a run."""
    keeps_digits: bool | None = None
    """Whether kernels may go on with more digits than a value has, as fused multiplications and additions do; None: on
    all devices but the CPU."""
    observed_bytes: float = 2**30
    """How many bytes of values a graph may give at once while each is observed; a larger one is observed in parts."""
    arithmetic: str | None = None
    """The class of arithmetic that the backend may compute in: what an adapter declares, or sums in any order."""

    def __post_init__(self) -> None:
        fixed_rule(self.rtol, self.atol)
        for name, value in (("allowed_mismatch", self.allowed_mismatch), ("timeout_s", self.timeout_s)):
            if value is not None and not 0 <= value < math.inf:
                raise UsageError("TP0801", f"{name} is {value}", fix="give a number that is not negative")
        if not self.observed_bytes > 0:
            raise UsageError("TP0801", f"observed_bytes is {self.observed_bytes}", fix="give more than 0")
        if self.runs < 1:
            raise UsageError("TP0801", f"runs is {self.runs}", fix="give at least 1")

    @property
    def rules(self) -> RuleBook:
        """The rules for models: tolerances if any are given, the noise floor if not."""
        if self.rtol is None and self.atol is None and not self.allowed_mismatch:
            return NOISE_FLOOR
        is_given = self.rtol is not None or self.atol is not None
        rtol, atol = (self.rtol or 0.0, self.atol or 0.0) if is_given else (None, None)
        rule = WithMismatch(rtol, atol, self.allowed_mismatch)
        return RuleBook(rule.name, lambda value: rule, lambda value: rule)


@dataclass(frozen=True)
class WithMismatch:
    """Passes if at most a percentage of the elements is outside of the tolerances; NaN and Inf must be in place."""

    rtol: float | None
    atol: float | None
    allowed: float = 0.0

    @property
    def name(self) -> str:
        beside = f", but for {self.allowed:g} % of the elements" if self.allowed else ""
        return f"{Fixed(self.rtol, self.atol).name}{beside}"

    def judge(self, metrics: Metrics) -> Verdict:
        strict = Fixed(self.rtol, self.atol).judge(metrics)
        is_number = class_of(metrics.golden_dtype) in ("float", "complex")
        is_elsewhere = metrics.nan_mismatches or metrics.inf_mismatches or metrics.incomparable is not None
        if strict.passed or is_elsewhere or not is_number or not self.allowed:
            return strict
        if metrics.nan_golden == metrics.numel or metrics.mismatch_pct > self.allowed:
            return strict
        return Verdict(True, self.name, metrics.mismatch_pct / self.allowed)


@dataclass(frozen=True)
class TensorComparison:
    """How far a tensor is from another. Errors are over the elements that are finite in both, NaN if there are none."""

    passed: bool
    reason: str | None
    """Why it failed."""
    rule: str
    max_absolute_error: float
    mean_absolute_error: float
    max_relative_error: float
    mean_relative_error: float
    rmse: float
    mismatch_percentage: float
    worst_index: tuple[int, ...] | None
    nan_count: int
    """Elements that are NaN in one of the two at least."""
    inf_count: int
    nan_places: tuple[tuple[int, ...], ...]
    """Where they are, the first 20."""
    inf_places: tuple[tuple[int, ...], ...]


def compare_tensors(a: Tensor, b: Tensor, config: ComparisonConfig | None = None) -> TensorComparison:
    """How far `b` is from `a`, which is taken for right. Tensors on other devices are compared on the CPU."""
    config = config or ComparisonConfig()
    if (reason := _why_incomparable(a, b, config)) is not None:
        return _incomparable(reason)
    golden, candidate = (tensor.detach().cpu() for tensor in (a, b))
    metrics = compare(golden, candidate, rtol=config.rtol, atol=config.atol)
    verdict = WithMismatch(metrics.rtol, metrics.atol, config.allowed_mismatch).judge(metrics)
    is_nan, is_inf = _either(torch.isnan, golden, candidate), _either(torch.isinf, golden, candidate)
    return TensorComparison(
        passed=verdict.passed,
        reason=verdict.reason,
        rule=verdict.rule,
        max_absolute_error=metrics.max_abs,
        mean_absolute_error=metrics.mean_abs,
        max_relative_error=metrics.max_rel,
        mean_relative_error=_mean_relative_error(golden, candidate),
        rmse=metrics.rmse,
        mismatch_percentage=metrics.mismatch_pct,
        worst_index=metrics.worst_index,
        nan_count=int(is_nan.sum()),
        inf_count=int(is_inf.sum()),
        nan_places=_places(is_nan),
        inf_places=_places(is_inf),
    )


def _why_incomparable(a: Tensor, b: Tensor, config: ComparisonConfig) -> str | None:
    for tensor in (a, b):
        if tensor.is_meta:
            return "a tensor on the meta device has no values"
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
            return f"a {'quantized' if tensor.is_quantized else tensor.layout} tensor cannot be compared"
    if config.check_device and a.device != b.device:
        return f"on {b.device} where {a.device} was expected"
    if a.shape != b.shape:
        return f"shape {list(b.shape)} where {list(a.shape)} was expected"
    is_other = a.dtype != b.dtype if config.check_dtype else class_of(a.dtype) != class_of(b.dtype)
    return f"dtype {name_of(b.dtype)} where {name_of(a.dtype)} was expected" if is_other else None


def _incomparable(reason: str) -> TensorComparison:
    unknown = dict.fromkeys(
        (
            "max_absolute_error",
            "mean_absolute_error",
            "max_relative_error",
            "mean_relative_error",
            "rmse",
        ),
        math.nan,
    )
    return TensorComparison(
        passed=False,
        reason=reason,
        rule="comparable",
        mismatch_percentage=100.0,
        worst_index=None,
        nan_count=0,
        inf_count=0,
        nan_places=(),
        inf_places=(),
        **unknown,
    )


def _either(is_so: Callable[[Tensor], Tensor], golden: Tensor, candidate: Tensor) -> Tensor:
    return is_so(_known_to_torch(golden)) | is_so(_known_to_torch(candidate))


def _known_to_torch(tensor: Tensor) -> Tensor:
    """A tensor in float32 if its floats are of one byte, for which torch has few operations."""
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() == 1 else tensor


def _places(where: Tensor) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(index) for index in place) for place in where.nonzero()[:PLACES])


def _mean_relative_error(golden: Tensor, candidate: Tensor) -> float:
    """The mean of |b - a| / |a| where both are finite, 0 where both are 0; a chunk at a time."""
    total, count = 0.0, 0
    wide = torch.complex128 if golden.is_complex() else torch.float64
    pairs = zip(*(torch.split(one.reshape(-1), CHUNK) for one in (golden, candidate)), strict=True)
    for expected, given in pairs:
        error = _difference(expected, given)
        size = expected.to(wide).abs()
        relative = torch.where(error == 0, 0.0, error / size)
        known = expected.to(wide).isfinite() & given.to(wide).isfinite()
        total, count = total + float(relative[known].sum()), count + int(known.sum())
    return total / count if count else math.nan


def _difference(expected: Tensor, given: Tensor) -> Tensor:
    """|b - a| in float64; of whole numbers before they are widened, which would make large neighbours equal."""
    if class_of(expected.dtype) == "int" and expected.dtype not in (torch.uint32, torch.uint64):
        return (given.to(torch.int64) - expected.to(torch.int64)).abs().double()
    wide = torch.complex128 if expected.is_complex() else torch.float64
    return (given.to(wide) - expected.to(wide)).abs()
