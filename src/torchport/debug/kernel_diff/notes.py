"""What a report says beside its verdict: what observing changed, what was left out, why nothing is proven."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from torchport.arithmetic.permitted import permitting
from torchport.debug.internals import observing
from torchport.debug.kernel_diff.measuring import MeasuredGraph
from torchport.debug.kernel_diff.steps import outputs_of
from torchport.debug.kernel_diff.whole_model import NO_GRADIENT
from torchport.debug.kernel_diff.whole_values import WholeRuns
from torchport.debug.verdicts import Verdict
from torchport.explain.repro import counted
from torchport.runs.report import Report

if TYPE_CHECKING:
    from torchport.debug.kernel_diff.comparison import Comparison

LONGEST = 300
NO_KERNEL = "no kernel ran: eager PyTorch computed every operation, so nothing is proven"
NO_GRAPH = "torch.compile made no graph of the model, so nothing of the backend ran"


def said(error: BaseException) -> str:
    """What an error says, on one line."""
    text = " ".join(str(getattr(error, "message", None) or error).split())
    return (text or type(error).__name__)[:LONGEST]


@dataclass(frozen=True)
class Finished:
    """What one run of a comparison comes to."""

    report: Report
    verdict: Verdict


def completed(
    report: Report, comparison: Comparison, measured: list[MeasuredGraph], runs: WholeRuns, out: Path | None
) -> Finished:
    """The report with its notes. It passes only if the backend failed nowhere, and computed every graph itself."""
    is_wrong = report.first_divergence is not None
    eager = [] if is_wrong else [one for one in measured if comparison.runs_in_eager(one)]
    failures = [f"{what}: {why}" for what, why in comparison.compiled.failures.items()]
    found = [
        *report.notes,
        *_on_gradients(comparison, runs),
        *_notes(comparison, measured),
        *_on_strides(runs),
    ]
    unproven: list[str] = []
    is_without_kernels = bool(eager) and len(eager) == len(measured) and all(map(comparison.is_eager, eager))
    if is_without_kernels:
        unproven = [NO_KERNEL]
    else:
        # A compiler that says that it makes no kernel of a graph has compiled it, by calling what eager PyTorch calls.
        unproven = [_unproven(one, comparison) for one in eager if one.run.kernels[1] is None]
        found += (_without_kernels(one) for one in eager if one.run.kernels[1] is not None)
    if not measured and not failures:
        why = next(iter(left_to_eager(comparison.whole.model).values()), None)
        failures = list(filter(None, (NO_GRAPH, why)))
    stopped = "; ".join((*unproven, *failures)) or None
    is_proven = stopped is None and report.status == "pass"
    status = report.status if is_proven or is_wrong else "error"
    update: dict[str, Any] = {"notes": tuple(found), "stopped": stopped, "status": status}
    report = report.model_copy(update=update)
    if out is not None and report.report is not None:
        report.write(Path(report.report))
    return Finished(report, _verdict(report, failures, unproven, is_without_kernels))


def _verdict(report: Report, failures: list[str], unproven: list[str], is_without_kernels: bool) -> Verdict:
    if report.status in ("pass", "fail"):
        return "pass" if report.passed else "fail"
    if failures or not unproven:
        return "not compared"
    return "no kernel ran" if is_without_kernels else "not proven"


def _unproven(one: MeasuredGraph, comparison: Comparison) -> str:
    """That only eager PyTorch ran, in words that say no more than was seen."""
    if comparison.is_eager(one):
        return f"eager PyTorch computed every operation of {one.plan.graph.name}: nothing is proven of it"
    equal = f"{one.equal} of {counted(one.compared, 'operation')}"
    return (
        f"only operations of eager PyTorch ran for {one.plan.graph.name}, as often as it has them, and {equal}"
        " gave bit by bit what eager PyTorch gives: nothing is proven of it"
    )


def _without_kernels(one: MeasuredGraph) -> str:
    return f"{one.plan.graph.name}: the backend makes no kernel of it, and calls those of eager PyTorch"


def left_to_eager(model: nn.Module) -> dict[str, str]:
    """By path, the modules that torch.compile leaves to eager PyTorch, and why."""
    if not observing.leaves_recurrent_layers_to_eager():
        return {}
    return {
        path: f"torch.compile leaves {type(module).__name__} to eager PyTorch, unless torch._dynamo.config.allow_rnn"
        " is set"
        for path, module in model.named_modules()
        if isinstance(module, nn.RNNBase)
    }


def _notes(comparison: Comparison, measured: list[MeasuredGraph]) -> Iterator[str]:
    if comparison.reference is not None:
        yield f"the reference is {comparison.reference.name}, not eager PyTorch"
    if changed := comparison.compiled.changed_settings:
        yield f"the backend changes {', '.join(sorted(changed))} for all of torch: put back after each call"
    if settings := permitting(node.target for one in measured for node in _on_nvidia(one)):
        yield f"by {' and '.join(settings)} kernels of NVIDIA may multiply in TF32: they are judged so"
    for one in measured:
        yield from _on_observing(one)
        if one.plan.graph.runs > 1:
            yield f"{one.plan.graph.name} ran {one.plan.graph.runs} times: its first run was compared"
    whys = Counter(step.left_out for one in measured for step in one.plan.steps if step.left_out is not None)
    for why, number in whys.items():
        yield f"{number} operation{'s are' if number > 1 else ' is'} not compared: {why}"


def _on_gradients(comparison: Comparison, runs: WholeRuns) -> Iterator[str]:
    """Why no gradient is compared, although that was asked for."""
    yield from comparison.whole.notes
    if comparison.whole.gradients and not runs.eager.has_gradients:
        yield NO_GRADIENT


def _on_nvidia(one: MeasuredGraph) -> Iterator[torch.fx.Node]:
    for step in one.plan.steps:
        if any(value.meta["val"].device.type == "cuda" for value in step.values):
            yield step.node


def _on_strides(runs: WholeRuns) -> Iterator[str]:
    if runs.compiled is None:
        return
    for place, (eager, given) in enumerate(zip(runs.eager.outputs, runs.compiled.outputs, strict=False)):
        if eager.shape == given.shape and _strides(eager) != _strides(given):
            yield f"output {place} of the compiled model has strides {_strides(given)}, not {_strides(eager)}"


def _strides(tensor: Tensor) -> list[int]:
    """The strides that matter: axes of size 1 may have any."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride if size > 1 else 1 for size, stride in pairs] if tensor.numel() else []


def _on_observing(one: MeasuredGraph) -> Iterator[str]:
    """What was otherwise when every value had to be kept."""
    observed, alone = one.run.kernels
    name = one.plan.graph.name
    if one.run.stretches > 1:
        yield f"{name}: its values are too many to be held at once: it was observed in {one.run.stretches} parts"
    if observed is not None and observed != alone:
        yield f"{name}: observing every value changed the fusion: {observed} kernels in place of {alone}"
    differing = sum(_differs(one, index) for index in range(len(one.plan.scope.outputs)))
    if differing:
        number = len(one.plan.scope.outputs)
        yield f"{name}: {differing} of {number} outputs are not bit by bit the same when nothing is observed"


def _differs(one: MeasuredGraph, index: int) -> bool:
    node = one.plan.scope.outputs[index]
    place = outputs_of(one.plan.graph).index(node)
    alone = None if one.run.outputs is None else one.run.outputs[place]
    observed = one.run.values.get(node.name)
    if not isinstance(alone, Tensor) or observed is None or alone.shape != observed.shape:
        return False
    same = (alone.cpu() == observed.cpu()) | ((alone != alone).cpu() & (observed != observed).cpu())
    return not bool(same.all())
