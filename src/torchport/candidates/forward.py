"""A candidate that runs in PyTorch against the reference: what every layer computes, own and chained.

In: two models, or a model and a function, and the inputs of both. Out: a report.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchport.candidates import leaves, precision
from torchport.candidates.call_log import CallLog
from torchport.candidates.call_pairing import CallPairs, pair_calls
from torchport.candidates.explaining import ComparedValues
from torchport.candidates.fusing import fused_stretches, with_fused
from torchport.candidates.golden import GoldenPlan, Recording, make_plan
from torchport.candidates.lockstep import LockStep
from torchport.candidates.masks import in_form_of
from torchport.candidates.names import Map
from torchport.candidates.pair import ModelPair, pair_up, undisturbed
from torchport.candidates.probing import WatchedCall
from torchport.candidates.suspects import ComparedModels
from torchport.candidates.verdict import Comparison, judge
from torchport.candidates.watched_model import WatchedModel
from torchport.errors import TorchportError, UsageError
from torchport.events import Steps
from torchport.parity.result import Layer
from torchport.parity.rulebook import NOISE_FLOOR, rules_for
from torchport.runs.report import Report
from torchport.trace.plan import input_key
from torchport.trace.residual import residual


def compare_forward(
    reference: nn.Module,
    candidate: Any,
    args: tuple[Any, ...] | list[Any] | Tensor,
    kwargs: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    layers: bool = True,
    map: Map | None = None,
    out: str | Path | None = None,
    explain: bool = True,
) -> Report:
    """Runs both on the same inputs and compares every layer that both have.

    If one diverges, `explain` looks for the operation and the cause.
    """
    rules = rules_for(rtol, atol)
    pair = pair_up(reference, candidate, args, kwargs, layers=layers, wish=map)
    steps = Steps()
    with undisturbed(pair), torch.no_grad():
        comparison = _run(pair, steps, measured=rules is NOISE_FLOOR)
    if not explain:
        comparison.subject = None
    return judge(comparison, pair.reference.root, rules, None if out is None else Path(out), steps)


def _run(pair: ModelPair, steps: Steps, *, measured: bool) -> Comparison:
    golden, candidate = Recording(), Recording()
    with steps.step("capture", "running the reference"):
        expected = leaves.structure(pair.reference.deterministic(golden))
    with steps.step("run", "running the candidate"):
        got = leaves.structure(pair.candidate.deterministic(candidate))
    if not any(leaf is Tensor for _, leaf in expected):
        raise UsageError("TP0801", f"{pair.reference.root} returns no tensor: there is nothing to compare")
    pairs = pair_calls(golden, candidate, pair.absent, pair.groups)
    pair = pair.with_calls(pairs.known_as(golden))
    pairs = with_fused(pairs, fused_stretches(pair, golden, candidate, pairs))
    plan = make_plan(golden, candidate, pairs, source=partial(source_of, pair, pairs, candidate))
    wrong = _wrong_outputs(plan, candidate, pairs, expected, got)
    comparison = Comparison(
        plan=plan,
        golden=plan.values,
        chained=_chained(plan, pairs, candidate, set(wrong)),
        uncompared=[not_compared(golden.calls[name], why) for name, why in pairs.why_not.items()],
        order=[name for kind, name in golden.events if kind == "exit"],
        reasons={key: why for name, why in wrong.items() for key in plan.calls[name].outputs},
        notes=pairs.notes,
        labels=_labels(plan),
    )
    if measured:
        with steps.step("capture", "running the reference"):
            if (dtype := pair.coarser) is not None:
                comparison.precision = str(dtype).removeprefix("torch.")
                comparison.golden = _in_the_candidates_dtype(pair.reference, plan, dtype)
            comparison.distances = _distances(comparison.golden, _truth(pair.reference, plan))
    with steps.step("run", "running the candidate"):
        probe = LockStep(plan, "candidate", set(wrong))
        try:
            pair.candidate.run(probe)
        except TorchportError as error:
            comparison.stopped = error
        comparison.lockstep = probe.written
    models = ComparedModels(pair, plan, set(wrong))
    comparison.subject = ComparedValues(models, comparison.golden, comparison.lockstep)
    return comparison


def source_of(pair: ModelPair, pairs: CallPairs, candidate: CallLog[Any], call: WatchedCall) -> str | None:
    """The candidate's line, where the fault would be mended; the reference's where torch makes the call."""
    if call.parent is None:
        return pair.source or call.source
    return candidate.calls[pairs.calls[call.name].candidate].source or call.source


def not_compared(call: WatchedCall, why: str) -> Layer:
    return Layer(
        name=call.name,
        type=call.type,
        own=None,
        chained=None,
        passed=True,
        reason=why,
        source=call.source,
        parent=call.parent,
        uncompared=why,
    )


def _wrong_outputs(
    plan: GoldenPlan, candidate: Recording, pairs: CallPairs, expected: Any, got: Any
) -> dict[str, str]:
    """The calls that give something else than the reference's: for the model itself, in another structure."""
    found = {}
    for name, step in plan.calls.items():
        if step.parent is None and not leaves.is_same_structure(got, expected):
            found[name] = f"returns {leaves.described(got)} where {leaves.described(expected)} was expected"
        elif name in plan.without_outputs:
            count = len(candidate.outputs[pairs.calls[name].candidate])
            found[name] = f"returns {count} tensors where {len(step.outputs)} were expected"
    return found


def _chained(plan: GoldenPlan, pairs: CallPairs, candidate: Recording, wrong: set[str]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name in plan.calls.keys() - wrong:
        pair = pairs.calls[name]
        for key, index in zip(plan.calls[name].outputs, pair.outputs.values(), strict=True):
            value = candidate.values[candidate.outputs[pair.candidate][index]]
            found[key] = in_form_of(plan.value(key), value)
    return found


def _labels(plan: GoldenPlan) -> dict[str, str]:
    """What inputs are called of which not all are compared, so that their numbers are not those in the list."""
    return {
        key: f"input {key.rpartition('<')[2]} of {step.name}"
        for step in plan.calls.values()
        for index, key in enumerate(step.inputs)
        if key != input_key(step.name, index)
    }


def _distances(golden: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> dict[str, Tensor]:
    found = {key: residual(golden[key], value) for key, value in truth.items() if key in golden}
    return {key: distance for key, distance in found.items() if distance is not None}


def _truth(reference: WatchedModel, plan: GoldenPlan) -> dict[str, Tensor]:
    """Each call in float64, from golden inputs; nothing where the model cannot be run in float64."""
    probe = LockStep(plan, "reference")
    try:
        with precision.in_float64(reference.names) as wide:
            reference.in_dtype(torch.float64).run(probe, witness=wide)
    except TorchportError:
        return {}
    return probe.written


def _in_the_candidates_dtype(
    reference: WatchedModel, plan: GoldenPlan, dtype: torch.dtype
) -> dict[str, Tensor]:
    """What the reference computes in the dtype of a coarser candidate, from golden inputs."""
    probe = LockStep(plan, "reference")
    try:
        with precision.in_dtype(reference.model, dtype):
            reference.in_dtype(dtype).run(probe)
    except TorchportError as error:
        raise UsageError(
            "TP0801",
            f"the reference does not run in {dtype}, the candidate's dtype: {error.message}",
            fix="give rtol or atol",
        ) from error
    floats = {key: value for key, value in probe.written.items() if value.is_floating_point()}
    return {key: floats.get(key, value) for key, value in plan.values.items()}
