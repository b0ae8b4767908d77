"""One value of a call: its verdict as a finding, also if its tensors are gone when the call is reported."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from torchport.parity import dtypes
from torchport.parity.finding import Finding, elements_of, lacks_truth_of, proves_little
from torchport.parity.judge import judge_by
from torchport.parity.metrics import Metrics
from torchport.parity.picture import Picture, draw
from torchport.parity.result import Measured
from torchport.parity.rulebook import Choice, Judged, RuleBook
from torchport.parity.tolerance import NoiseFloor, Rule


class Remembered(NamedTuple):
    """What is left of a value that was judged before: the verdicts on its own and on its chained error."""

    own: Finding
    chained: Finding
    picture: Picture | None


def remember(
    rules: RuleBook,
    key: str,
    candidate: torch.Tensor,
    own_golden: torch.Tensor,
    distance: torch.Tensor | None,
    golden: torch.Tensor,
    *,
    has_picture: bool,
) -> Remembered:
    """Judges a value; there is a picture if it is out of bounds, or if one is asked for."""
    rule = rule_for(rules.own, key, own_golden, candidate)
    own, _ = judge_value(rule, key, own_golden, candidate, distance)
    chained, _ = judge_value(rule_for(rules.chained, key, golden, candidate), key, golden, candidate)
    is_drawn = own.measured is not None and (has_picture or not own.passed)
    picture = drawn(rule, own_golden, candidate, own.measured) if is_drawn and own.measured else None
    return Remembered(own, chained, picture)


def drawn(rule: Rule, golden: torch.Tensor, candidate: torch.Tensor, own: Measured) -> Picture | None:
    """The picture of a value that was judged by a rule."""
    return draw(golden, candidate, own.golden_max, _allowed(rule, own))


def _allowed(rule: Rule, own: Measured) -> float | None:
    """How far an element may be off; in a value that fails, not more than the share of the worst one says."""
    if own.incomparable is not None or math.isnan(own.max_abs):
        return None
    allowed = rule.allowance(own) if isinstance(rule, NoiseFloor) else own.atol + own.rtol * own.golden_max
    if own.ratio is not None and 1.0 < own.ratio < math.inf:
        allowed = min(allowed, own.max_abs / own.ratio)
    return allowed if math.isfinite(allowed) else None


def rule_for(choose: Choice, key: str, golden: torch.Tensor, candidate: torch.Tensor) -> Rule:
    return choose(Judged(key, dtypes.name_of(golden.dtype), dtypes.name_of(candidate.dtype)))


def judge_value(
    rule: Rule,
    key: str,
    golden: torch.Tensor,
    candidate: torch.Tensor,
    distance: torch.Tensor | None = None,
    coarser: torch.Tensor | None = None,
    known: Metrics | None = None,
) -> tuple[Finding, Metrics]:
    """The verdict on a value of a call yet to be named, and its metrics; arguments as for `judge_by`."""
    metrics, verdict = judge_by(rule, golden, candidate, distance, coarser, known)
    elements = elements_of(golden, candidate, distance, metrics, verdict)
    is_somewhere = elements is not None and elements.common
    reason = f"{verdict.reason}: {elements}" if is_somewhere else verdict.reason
    measured = Measured(
        **vars(metrics),
        key=key,
        passed=verdict.passed,
        rule=verdict.rule,
        ratio=verdict.ratio,
        judged=verdict.judged,
        reason=reason,
        elements=elements,
    )
    by_noise = isinstance(rule, NoiseFloor)
    lacks_truth, little = by_noise and lacks_truth_of(metrics), by_noise and proves_little(metrics)
    return Finding("", "", verdict.passed, reason, measured, key, lacks_truth, little), metrics
