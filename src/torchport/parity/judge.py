"""Judging single tensors: what the comparison of whole traces does with each, and scripts of one operation import."""

from __future__ import annotations

import torch

from torchport.parity.choices import may_have_chosen, steady_part
from torchport.parity.metrics import Metrics, compare
from torchport.parity.tolerance import NoiseFloor, Rule, Verdict
from torchport.trace.residual import residual


def judge(
    golden: torch.Tensor, candidate: torch.Tensor, truth: torch.Tensor | None = None
) -> tuple[Metrics, Verdict]:
    """How far a candidate is from the golden value, and the verdict of the noise floor rule."""
    return judge_by(NoiseFloor(), golden, candidate, None if truth is None else residual(golden, truth))


def judge_by(
    rule: Rule,
    golden: torch.Tensor,
    candidate: torch.Tensor,
    distance: torch.Tensor | None,
    coarser: torch.Tensor | None = None,
    known: Metrics | None = None,
) -> tuple[Metrics, Verdict]:
    """How far a candidate is from the golden value, and the verdict of a rule.

    `distance` is how far the golden value is from the truth, and `coarser` what the candidate's arithmetic computes, by
    which the candidate is measured if it is out of eager PyTorch's bounds. `known` are the metrics of the same two
    tensors, if they have been measured before with a distance, and are judged without one now.
    """

    def measured(coarser: torch.Tensor | None) -> tuple[Metrics, Verdict]:
        metrics = compare(
            golden,
            candidate,
            distance,
            rtol=rule.rtol,
            atol=rule.atol,
            coarser=coarser,
            by_scale=isinstance(rule, NoiseFloor),
        )
        return metrics, rule.judge(metrics)

    candidate = _with_limits_of(golden, candidate)
    if known is None:
        metrics, verdict = measured(None)
    else:
        metrics = known.model_copy(update={"noise": None})
        verdict = rule.judge(metrics)
    coarser = None if verdict.passed or coarser is None else coarser.detach().cpu()
    if coarser is not None and (kinder := measured(coarser))[1].passed:
        metrics, verdict = kinder
    if not (verdict.passed and isinstance(rule, NoiseFloor) and distance is not None):
        return metrics, verdict
    return _without_choices(rule, golden, candidate, distance, coarser, metrics) or (metrics, verdict)


def _with_limits_of(golden: torch.Tensor, candidate: torch.Tensor) -> torch.Tensor:
    """The candidate, in which the least number of its dtype is that of the golden one wherever both have it.

    A mask is often filled with the least number of its dtype, whatever that is. The same holds for the largest.
    """
    is_other = candidate.dtype != golden.dtype and candidate.shape == golden.shape
    if not (is_other and golden.is_floating_point() and candidate.is_floating_point()):
        return candidate
    own, other = torch.finfo(golden.dtype), torch.finfo(candidate.dtype)
    same = (golden == own.min) & (candidate == other.min) | (golden == own.max) & (candidate == other.max)
    return torch.where(same, golden, candidate) if bool(same.any()) else candidate


def _without_choices(
    rule: NoiseFloor,
    golden: torch.Tensor,
    candidate: torch.Tensor,
    distance: torch.Tensor,
    coarser: torch.Tensor | None,
    metrics: Metrics,
) -> tuple[Metrics, Verdict] | None:
    """The verdict on a layer that chooses, if it passes only because eager PyTorch chose otherwise somewhere."""
    if not may_have_chosen(metrics):
        return None
    steady = steady_part(golden, candidate, distance, coarser, metrics, rule.multiple)
    if steady is None:
        return None
    if steady.chosen > steady.allowed:
        ratio = steady.chosen / steady.allowed
        reason = (
            f"{steady.chosen} elements lose more than half of their digits, of which {steady.allowed} may"
        )
        return metrics, Verdict(False, rule.name, ratio, reason)
    rest = compare(golden, steady.candidate, steady.distance, coarser=steady.coarser)
    verdict = rule.judge(rest)
    return None if verdict.passed else (rest, verdict)


def allowance(golden: torch.Tensor, distance: torch.Tensor | None) -> float:
    """The largest difference from the golden value that an honest candidate can have at any element.

    `distance` is how far the golden value is from the truth. Within it is necessary, not enough, to pass the rule.
    """
    return NoiseFloor().allowance(compare(golden, golden, distance))
