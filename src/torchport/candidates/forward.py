"""A candidate that runs in PyTorch against the reference: what every layer computes, own and chained.

In: two models, or a model and a function, and the inputs of both. Out: a report.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchport.arithmetic.classes import FLOAT32, Arithmetic, find_arithmetic
from torchport.candidates import leaves, precision
from torchport.candidates.cuts import Flow
from torchport.candidates.emulated import emulated_forward, run_again
from torchport.candidates.explaining import ComparedValues
from torchport.candidates.golden import GoldenPlan, Recording, make_plan
from torchport.candidates.leaves import partners
from torchport.candidates.lockstep import LockStep
from torchport.candidates.names import Map
from torchport.candidates.pair import ModelPair, pair_up, undisturbed
from torchport.candidates.probing import WatchedCall
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
from torchport.trace.plan import output_keys


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
    with alone():
        pair = pair_up(reference, candidate, args, kwargs, layers=layers, wish=map)
    steps = Steps()
    with undisturbed(pair), torch.no_grad():
        comparison = _run(pair, StateRuns.of(pair, state), steps, measured=rules is NOISE_FLOOR)
    if not explain:
        comparison.subject = None
    place = None if out is None else Path(out)
    return judge(comparison, pair.reference.root, rules, allowed, place, steps)


def _run(pair: ModelPair, state: StateRuns, steps: Steps, *, measured: bool) -> Comparison:
    golden, candidate = Recording(), Recording()
    with steps.step("capture", "running the reference"):
        expected = leaves.structure(pair.reference.deterministic(golden, witness=state.golden))
    with steps.step("run", "running the candidate"):
        got = leaves.structure(pair.candidate.deterministic(candidate, witness=state.chained))
    if not any(leaf is Tensor for _, leaf in expected):
        raise UsageError("TP0801", f"{pair.reference.root} returns no tensor: there is nothing to compare")
    why_not = pair.why_not(golden, candidate)
    plan = make_plan(
        golden,
        lambda name: name not in why_not,
        with_inputs=lambda name: partners(golden.given_at[name], candidate.given_at[name]) is not None,
        source=lambda call: source_of(pair, candidate.calls, call),
    )
    wrong = _wrong_outputs(plan, candidate, expected, got)
    comparison = Comparison(
        plan=plan,
        golden=plan.values,
        chained=_chained(plan, candidate, set(wrong)),
        uncompared=[
            not_compared(call, why_not[name]) for name, call in golden.calls.items() if name in why_not
        ],
        order=[name for kind, name in golden.events if kind == "exit"],
        reasons={key: why for name, why in wrong.items() for key in plan.calls[name].outputs},
        notes=notes_on(pair, plan.calls, golden, candidate),
    )
    if measured:
        with steps.step("capture", "running the reference"):
            if (dtype := pair.coarser) is not None:
                comparison.precision = str(dtype).removeprefix("torch.")
                comparison.golden = _in_the_candidates_dtype(pair.reference, plan, dtype, state.coarser)
            comparison.truth = _truth(pair.reference, plan, state.truth)
            comparison.emulate = partial(_emulated, pair, plan)
            comparison.ends = partial(_ends, pair, plan, None)
            comparison.emulate_all = partial(_ends, pair, plan)
    with steps.step("run", "running the candidate"):
        probe = LockStep(plan, set(wrong))
        try:
            pair.candidate.run(probe, witness=state.own)
        except TorchportError as error:
            comparison.stopped = error
        comparison.lockstep = probe.written
    models = ComparedModels(pair, plan, set(wrong))
    comparison.subject = ComparedValues(models, comparison.golden, comparison.lockstep)
    return with_state(comparison, state)


def source_of(pair: ModelPair, candidate: Mapping[str, WatchedCall], call: WatchedCall) -> str | None:
    """The candidate's line, where the fault would be mended; the reference's where torch makes the call."""
    if call.parent is None:
        return pair.source or call.source
    return candidate[call.name].source or call.source


def _wrong_outputs(plan: GoldenPlan, candidate: Recording, expected: Any, got: Any) -> dict[str, str]:
    """The calls that give something else than the reference's: for the model itself, in another structure."""
    found = {}
    for name, step in plan.calls.items():
        if step.parent is None and got != expected:
            found[name] = f"returns {leaves.described(got)} where {leaves.described(expected)} was expected"
        elif partners(plan.returned_at[name], candidate.returned_at[name]) is None:
            count = len(candidate.outputs[name])
            found[name] = f"returns {count} tensors where {len(step.outputs)} were expected"
    return found


def _chained(plan: GoldenPlan, candidate: Recording, wrong: set[str]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name in plan.calls.keys() - wrong:
        chosen = partners(plan.returned_at[name], candidate.returned_at[name]) or []
        for key, index in zip(output_keys(name, len(chosen)), chosen, strict=True):
            found[key] = candidate.values[candidate.outputs[name][index]]
    return found


def notes_on(
    pair: ModelPair, names: Iterable[str], golden: Recording | Flow, candidate: Recording | Flow
) -> dict[str, str]:
    """What is not compared of calls that are."""
    notes = {}
    for name in names:
        notes[name] = [
            note
            for note in (
                pair.closed.get(golden.calls[name].path),
                _note_on_inputs(name, golden, candidate),
                _note_on_outputs(name, golden, candidate),
            )
            if note is not None
        ]
    return {name: "; ".join(found) for name, found in notes.items() if found}


def _note_on_inputs(name: str, golden: Recording | Flow, candidate: Recording | Flow) -> str | None:
    ours, theirs = len(golden.inputs[name]), len(candidate.inputs[name])
    if ours == theirs:
        return None
    has_partners = partners(golden.given_at[name], candidate.given_at[name]) is not None
    which = "other inputs are" if has_partners else "inputs are"
    return f"its {which} not compared: it is given {theirs} tensors, in the reference {ours}"


def _note_on_outputs(name: str, golden: Recording | Flow, candidate: Recording | Flow) -> str | None:
    ours, theirs = len(golden.outputs[name]), len(candidate.outputs[name])
    if ours >= theirs:
        return None
    return f"its other outputs are not compared: it returns {theirs} tensors, in the reference {ours}"


def _truth(reference: WatchedModel, plan: GoldenPlan, witness: StateWatch) -> dict[str, Tensor]:
    """Each call in float64, from golden inputs; nothing where the model cannot be run in float64."""
    probe = LockStep(plan)
    try:
        with precision.in_float64(reference.model):
            reference.in_dtype(torch.float64).run(probe, witness=witness)
    except TorchportError:
        return {}
    return probe.written


def _emulated(
    pair: ModelPair, plan: GoldenPlan, arithmetic: Arithmetic, calls: Collection[str]
) -> Mapping[str, Tensor]:
    with undisturbed(pair):
        return emulated_forward(pair.reference, plan, pair.coarser, arithmetic, calls)


def _ends(pair: ModelPair, plan: GoldenPlan, arithmetic: Arithmetic | None) -> Mapping[str, Tensor]:
    """The outputs of the whole reference in a class of arithmetic, or in float64; nothing if it cannot be run so."""
    try:
        with undisturbed(pair), torch.no_grad(), run_again(pair.reference, pair.coarser, arithmetic) as side:
            result = side.run(Passive())
    except TorchportError:
        return {}
    tensors = [tensor for _, tensor in leaves.tensors(result)]
    return dict(zip(plan.calls[plan.root].outputs, tensors, strict=True))


def _in_the_candidates_dtype(
    reference: WatchedModel, plan: GoldenPlan, dtype: torch.dtype, witness: StateWatch
) -> dict[str, Tensor]:
    """What the reference computes in the dtype of a coarser candidate, from golden inputs."""
    probe = LockStep(plan)
    try:
        with precision.in_dtype(reference.model, dtype):
            reference.in_dtype(dtype).run(probe, witness=witness)
    except TorchportError as error:
        raise UsageError(
            "TP0801",
            f"the reference does not run in {dtype}, the candidate's dtype: {error.message}",
            fix="give rtol or atol",
        ) from error
    floats = {key: value for key, value in probe.written.items() if value.is_floating_point()}
    return {key: floats.get(key, value) for key, value in plan.values.items()}
