"""A candidate that runs in PyTorch against the reference: what every layer computes, own and chained.

In: two models, or a model and a function, and the inputs of both. Out: a report.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchport.arithmetic.classes import FLOAT32, Arithmetic, find_arithmetic
from torchport.candidates import leaves, precision
from torchport.candidates.call_pairing import CallPairs, pair_calls
from torchport.candidates.coarser import in_candidates_dtypes, must_run_in
from torchport.candidates.collecting import older_objects_left_alone
from torchport.candidates.emulated import emulated_forward, run_again
from torchport.candidates.explaining import ComparedValues
from torchport.candidates.fusing import fused_stretches, with_fused
from torchport.candidates.golden import GoldenPlan, Recording, make_plan
from torchport.candidates.left_out import notes_on
from torchport.candidates.lockstep import LockStep, TrueDistances
from torchport.candidates.names import Map
from torchport.candidates.other_dtypes import notes_on_dtypes
from torchport.candidates.pair import ModelPair, pair_up, undisturbed
from torchport.candidates.plain_arguments import PlainArguments, given_otherwise
from torchport.candidates.probing import WatchedCall, Witnesses
from torchport.candidates.recorded_run import RecordedRun
from torchport.candidates.same_bits import lockstep_of_same
from torchport.candidates.state_rows import StateRuns, with_state
from torchport.candidates.state_watch import StateWatch
from torchport.candidates.suspects import ComparedModels
from torchport.candidates.verdict import Comparison, judge, not_compared
from torchport.candidates.watched_model import Passive, WatchedModel
from torchport.capture.state import alone
from torchport.errors import TorchportError, UsageError
from torchport.events import Steps
from torchport.parity.rulebook import NOISE_FLOOR, rules_for
from torchport.runs.report import Report
from torchport.trace.plan import input_key


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
    arithmetic: str = FLOAT32.name,
    state: bool = False,
) -> Report:
    """Runs both on the same inputs and compares every layer that both have.

    `arithmetic` is the class in which the candidate may compute. If a layer diverges, `explain` looks for the operation
    and the cause. With `state`, the buffers and inputs that the forward pass writes to are compared, too.
    """
    rules, allowed = rules_for(rtol, atol), find_arithmetic(arithmetic)
    steps = Steps()
    with older_objects_left_alone(), alone():
        pair = pair_up(reference, candidate, args, kwargs, layers=layers, wish=map)
        with undisturbed(pair), torch.no_grad():
            comparison = _run(pair, StateRuns.of(pair, state), steps, measured=rules is NOISE_FLOOR)
    if not explain:
        comparison.subject = None
    place = None if out is None else Path(out)
    return judge(comparison, pair.reference.root, rules, allowed, place, steps)


def _run(pair: ModelPair, state: StateRuns, steps: Steps, *, measured: bool) -> Comparison:
    golden = Recording()
    candidate = Recording(other=golden)
    ours, theirs = PlainArguments(), PlainArguments()
    with steps.step("capture", "running the reference"):
        expected = leaves.structure(
            pair.reference.deterministic(golden, witness=Witnesses(state.golden, ours))
        )
    with steps.step("run", "running the candidate"):
        got = leaves.structure(
            pair.candidate.deterministic(candidate, witness=Witnesses(state.chained, theirs))
        )
    if not any(leaf is Tensor for _, leaf in expected):
        raise UsageError("TP0801", f"{pair.reference.root} returns no tensor: there is nothing to compare")
    pairs = pair_calls(golden, candidate, pair.absent, pair.groups, pair.closed)
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
        remarks=(*notes_on("layer", pairs.why_not), *notes_on_dtypes(plan, pair.precision)),
        given_otherwise=given_otherwise(pairs, ours, theirs),
        labels=_labels(plan),
    )
    if measured:
        with steps.step("capture", "running the reference"):
            if (name := pair.precision) is not None:
                comparison.precision = name
                comparison.golden = _in_candidates_dtypes(pair, plan, name, state.coarser)
            comparison.distances = _distances(pair.reference, plan, comparison.golden, state.truth)
            comparison.emulate = partial(_emulated, pair, plan)
            comparison.ends = partial(_ends, pair, plan, None)
            comparison.emulate_all = partial(_ends, pair, plan)
    same = None if wrong or state.is_compared else lockstep_of_same(plan, pairs, golden, candidate)
    if same is not None:
        comparison.lockstep = same
    else:
        with steps.step("run", "running the candidate"):
            _run_in_lockstep(pair, comparison, set(wrong), state.own)
    models = ComparedModels(pair, plan, set(wrong))
    comparison.subject = ComparedValues(models, comparison.golden, comparison.lockstep)
    return with_state(comparison, state)


def _run_in_lockstep(pair: ModelPair, comparison: Comparison, wrong: set[str], witness: StateWatch) -> None:
    probe = LockStep(comparison.plan, "candidate", wrong)
    try:
        pair.candidate.run(probe, witness=witness)
    except TorchportError as error:
        comparison.stopped = error
    comparison.lockstep = probe.written


def source_of(
    pair: ModelPair, pairs: CallPairs, candidate: RecordedRun[Any], call: WatchedCall
) -> str | None:
    """The candidate's line, where the fault would be mended; the reference's where torch makes the call."""
    if call.parent is None:
        return pair.source or call.source
    return candidate.calls[pairs.calls[call.name].candidate].source or call.source


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
            found[key] = candidate.values[candidate.outputs[pair.candidate][index]]
    return found


def _labels(plan: GoldenPlan) -> dict[str, str]:
    """What inputs are called of which not all are compared, so that their numbers are not those in the list."""
    return {
        key: f"input {key.rpartition('<')[2]} of {step.name}"
        for step in plan.calls.values()
        for index, key in enumerate(step.inputs)
        if key != input_key(step.name, index)
    }


def _distances(
    reference: WatchedModel, plan: GoldenPlan, golden: Mapping[str, Tensor], witness: StateWatch
) -> dict[str, Tensor]:
    """How far values are from what each call computes in float64 from golden inputs; empty if it cannot be run so.

    The weights of one module are in float64 at a time, or all of them, if the model cannot be run with these.
    """
    for watched in (reference.names, None):
        probe = TrueDistances(plan, "reference", golden=golden)
        try:
            with precision.in_float64(reference.model, watched, twins=probe.twins) as wide:
                reference.in_dtype(torch.float64).run(probe, witness=Witnesses(wide, witness))
        except TorchportError:
            continue
        if probe.twins.is_read_stale:
            message = (
                "the reference writes through what a layer returns to what it gave the layer, and reads that"
            )
            raise UsageError("TP0801", message, fix="write to a copy, or give rtol or atol")
        return probe.written
    return {}


def _emulated(
    pair: ModelPair, plan: GoldenPlan, arithmetic: Arithmetic, calls: Collection[str]
) -> Mapping[str, Tensor]:
    with undisturbed(pair):
        return emulated_forward(pair, plan, arithmetic, calls)


def _ends(pair: ModelPair, plan: GoldenPlan, arithmetic: Arithmetic | None) -> Mapping[str, Tensor]:
    """The outputs of the whole reference in a class of arithmetic, or in float64."""
    with undisturbed(pair), torch.no_grad(), run_again(pair, plan, arithmetic) as side:
        result = side.run(Passive())
    tensors, places = dict(leaves.tensors(result)), plan.places["reference"].returned[plan.root]
    return {key: tensors[place] for key, place in zip(plan.calls[plan.root].outputs, places, strict=True)}


def _in_candidates_dtypes(
    pair: ModelPair, plan: GoldenPlan, name: str, witness: StateWatch
) -> dict[str, Tensor]:
    """What the reference computes in the dtypes of a coarser candidate, from golden inputs."""
    probe = LockStep(plan, "reference")
    with must_run_in(name), in_candidates_dtypes(pair, plan) as reference:
        reference.run(probe, witness=witness)
    floats = {key: value for key, value in probe.written.items() if value.is_floating_point()}
    return {key: floats.get(key, value) for key, value in plan.values.items()}
