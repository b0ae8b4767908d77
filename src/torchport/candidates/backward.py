"""The gradients of a candidate that runs in PyTorch against those of the reference.

In: as for the forward pass. Out: a report whose layers are parameters and the inputs of calls, in the order of the
backward pass. The float64 truth and the culprit are those of the forward pass, run backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchport.arithmetic.classes import FLOAT32, Arithmetic, Round, find_arithmetic
from torchport.candidates import leaves, precision
from torchport.candidates.call_pairing import CallPairs, pair_calls
from torchport.candidates.checkpoints import without_gradients
from torchport.candidates.coarser import in_candidates_dtypes, must_run_in
from torchport.candidates.cuts import Cut
from torchport.candidates.emulated import run_again
from torchport.candidates.explaining import ComparedGradients
from torchport.candidates.flow import Flow, Gradients
from torchport.candidates.forward import source_of
from torchport.candidates.fusing import Stretch, fused_stretches, parameters_inside, with_fused
from torchport.candidates.golden import GoldenPlan, make_plan
from torchport.candidates.left_out import notes_on
from torchport.candidates.losses import Loss, starts_of
from torchport.candidates.names import Map
from torchport.candidates.other_dtypes import notes_on_dtypes
from torchport.candidates.pair import ModelPair, pair_up, undisturbed
from torchport.candidates.parameter_pairs import (
    Parameters,
    must_take_gradients,
    owners_of_parameters,
    parameters_of_candidate,
    parameters_of_reference,
)
from torchport.candidates.parameter_rows import ParameterRow
from torchport.candidates.plain_arguments import PlainArguments, given_otherwise
from torchport.candidates.probing import Witness, Witnesses
from torchport.candidates.return_plan import GradientsFound, compared_gradients_of, with_joined
from torchport.candidates.state_rows import StateRuns, with_state
from torchport.candidates.stored_tensors import RenamedTensors, Scratch, StoredTensors, scratch_folder
from torchport.candidates.suspects import ComparedModels
from torchport.candidates.verdict import Comparison, judge
from torchport.candidates.watched_model import WatchedModel
from torchport.capture.state import alone
from torchport.errors import CaptureError, RunError, TorchportError, UsageError
from torchport.events import Steps
from torchport.parity.rulebook import NOISE_FLOOR, rules_for
from torchport.runs.report import Report
from torchport.trace.plan import input_key, output_key

RunCut = Callable[..., Cut]
"""Runs a model with the graph cut at every border: the model, its parameters, a witness, whether all is in float64."""


def compare_gradients(
    reference: nn.Module,
    candidate: Any,
    args: tuple[Any, ...] | list[Any] | Tensor,
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Loss | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    layers: bool = True,
    map: Map | None = None,
    out: str | Path | None = None,
    explain: bool = True,
    arithmetic: str = FLOAT32.name,
    state: bool = False,
) -> Report:
    """Compares the gradients of every parameter and of the inputs, by name.

    `loss` makes a scalar of what the model returns. Without it, the loss is the sum of all floating outputs, each
    element times a normal random number, the same ones for both (a fixed seed). `arithmetic` is the class in which the
    candidate may compute. If a gradient diverges, `explain` looks for the operation and the cause. With `state`, the
    buffers and inputs that the forward pass writes to are compared, too.
    """
    rules, allowed = rules_for(rtol, atol), find_arithmetic(arithmetic)
    with alone():
        pair = pair_up(reference, candidate, args, kwargs, layers=layers, wish=map)
    must_take_gradients(pair)
    steps = Steps()
    with scratch_folder() as scratch:
        with undisturbed(pair), without_gradients(*pair.models), torch.enable_grad():
            states = StateRuns.of(pair, state)
            comparison = _run(pair, loss, states, steps, scratch, measured=rules is NOISE_FLOOR)
        if not explain:
            comparison.subject = None
        name = f"{pair.reference.root}_gradients"
        return judge(comparison, name, rules, allowed, None if out is None else Path(out), steps)


@dataclass(frozen=True)
class _Run:
    """Both models after a forward and a backward pass: the values at every border, and which calls belong together."""

    pair: ModelPair
    scratch: Scratch
    ours: Parameters
    theirs: Parameters
    golden: Flow
    known: StoredTensors
    """The reference's gradients."""
    arrived: StoredTensors
    """The candidate's gradients."""
    pairs: CallPairs
    stretches: list[Stretch]
    plan: GoldenPlan
    given_otherwise: dict[str, str]
    """By call, which of its arguments that are no tensors are not those of the reference."""

    def cut(
        self,
        side: WatchedModel,
        parameters: Mapping[str, Tensor],
        witness: Witness | None = None,
        *,
        is_wide: bool = False,
        rounded: Round | None = None,
    ) -> Cut:
        """A run with the graph cut at every border, from golden values."""
        flowing, errors = self.golden.flowing, side.errors_with_a_code
        probe = Cut(
            self.plan,
            side.label,
            self.known,
            flowing,
            parameters,
            self.scratch.store,
            errors,
            is_wide,
            rounded,
        )
        side.run(probe, witness=witness)
        return probe


def _run(
    pair: ModelPair, loss: Loss | None, state: StateRuns, steps: Steps, scratch: Scratch, *, measured: bool
) -> Comparison:
    run = _both(pair, loss, state, steps, scratch)
    shown, truth = run.known, scratch.store()
    if measured:
        with steps.step("capture", "running the reference"):
            if (name := pair.precision) is not None:
                with must_run_in(name), in_candidates_dtypes(pair, run.plan) as reference:
                    shown = run.cut(reference, run.ours.tensors, state.coarser).found
            truth = _truth(pair.reference, run.ours.tensors, state.truth, run.cut) or truth
    with steps.step("run", "running the candidate"), _must_run_cut():
        own = run.cut(run.pair.candidate, run.theirs.tensors, state.own).found
    owners = owners_of_parameters(pair.reference.model)
    parameters = owners, run.ours.tensors, run.theirs.tensors
    inside = parameters_inside(run.stretches, run.golden, *parameters)
    found = GradientsFound(
        flow=run.golden,
        plan=run.plan,
        why_not=run.pairs.why_not,
        absent=run.theirs.absent | inside,
        owners=owners,
        golden=run.known,
        shown=shown,
        truth=truth,
        own=own,
        chained=RenamedTensors(run.arrived, _keys_in_candidate(run.pairs)),
        new_store=scratch.store,
    )
    comparison, rows = compared_gradients_of(found)
    if measured:
        _add_other_runs(comparison, run, rows, loss)
    comparison.notes = run.pairs.notes
    comparison.remarks = _remarks(run, inside)
    comparison.given_otherwise = run.given_otherwise
    comparison.precision = pair.precision
    models = ComparedModels(run.pair, run.plan, run.plan.without_outputs)
    comparison.subject = ComparedGradients(
        models, run.known, comparison.golden, comparison.lockstep, found.calls_with
    )
    return with_state(comparison, state, first=True)


@contextmanager
def _must_run_cut() -> Iterator[None]:
    """Within, a candidate that runs as it is runs with the graph cut at every border."""
    try:
        yield
    except RunError as error:
        message = f"once its graph is cut at the borders of its layers, {error.message}"
        fix = "compare_models compares a model that differentiates in its forward, without its gradients"
        raise UsageError("TP0801", message, error.where, fix) from error


def _both(pair: ModelPair, loss: Loss | None, state: StateRuns, steps: Steps, scratch: Scratch) -> _Run:
    ours = parameters_of_reference(pair)
    theirs = parameters_of_candidate(pair, ours.tensors)
    golden, candidate = Flow(values=scratch.store()), Flow(values=scratch.store())
    plain, others = PlainArguments(), PlainArguments()
    known, arrived = scratch.store(), scratch.store()
    with steps.step("capture", "running the reference"):
        expected = _flow(pair.reference, golden, loss, ours.tensors, known, Witnesses(state.golden, plain))
        if not known:
            raise UsageError("TP0801", f"no gradient flows in {pair.reference.root}: nothing can be compared")
    with steps.step("run", "running the candidate"):
        got = _flow(
            pair.candidate, candidate, loss, theirs.tensors, arrived, Witnesses(state.chained, others)
        )
    if not leaves.is_same_structure(got, expected):
        message = (
            f"the candidate returns {leaves.described(got)} where {leaves.described(expected)} was expected"
        )
        raise RunError("TP0603", message, where=pair.source)
    pairs = pair_calls(golden, candidate, pair.absent, pair.groups, pair.closed)
    pair = pair.with_calls(pairs.known_as(golden))
    stretches = fused_stretches(pair, golden, candidate, pairs)
    pairs = with_fused(pairs, stretches)
    plan = make_plan(golden, candidate, pairs, source=partial(source_of, pair, pairs, candidate))
    plan.values = golden.values
    candidate.values.clear()
    otherwise = given_otherwise(pairs, plain, others)
    return _Run(pair, scratch, ours, theirs, golden, known, arrived, pairs, stretches, plan, otherwise)


def _remarks(run: _Run, inside: Collection[str]) -> tuple[str, ...]:
    """What is not compared; `inside` are the parameters of layers that are computed as one."""
    absent = {name: why for name, why in run.theirs.absent.items() if name not in inside}
    as_one = dict.fromkeys(
        inside, "the candidate computes their layers as one with others, with other weights"
    )
    left_out = (*notes_on("layer", run.pairs.why_not), *notes_on("parameter", {**absent, **as_one}))
    return (*left_out, *notes_on_dtypes(run.plan, run.pair.precision))


def _add_other_runs(
    comparison: Comparison, run: _Run, rows: Mapping[str, ParameterRow], loss: Loss | None
) -> None:
    """How the reference is run again if the candidate is out of bounds."""
    ends = partial(_ends, run, loss)
    comparison.ends = lambda: with_joined(ends(None), rows)
    comparison.emulate_all = lambda arithmetic: with_joined(ends(arithmetic), rows)
    comparison.emulate = lambda arithmetic, _: _run_again(
        run, arithmetic, lambda side: run.cut(side, run.ours.tensors, rounded=arithmetic.results).found
    )


def _keys_in_candidate(pairs: CallPairs) -> dict[str, str]:
    """For each key of a border in the reference that in the candidate's own run."""
    found: dict[str, str] = {}
    for name, pair in pairs.calls.items():
        other = pair.candidate
        found |= {input_key(name, index): input_key(other, place) for index, place in pair.inputs.items()}
        found |= {output_key(name, index): output_key(other, place) for index, place in pair.outputs.items()}
    return found


def _flow(
    side: WatchedModel,
    probe: Flow,
    loss: Loss | None,
    parameters: Mapping[str, Tensor],
    found: StoredTensors,
    witness: Witness | None = None,
) -> Any:
    """One forward and backward pass: the structure of the outputs. The gradients at every border go to `found`."""

    def back(result: Any) -> Any:
        structure = leaves.structure(result)
        with side.errors_with_a_code():
            gradients = probe.gradients(starts_of(result, loss), parameters)
        while gradients:
            found.__setitem__(*gradients.popitem())
        return structure

    try:
        return side.deterministic(probe, back, witness)
    except CaptureError as error:
        if error.code != "TP0204" or not side.is_repeatable():
            raise
        message = f"the {side.label} writes through what a layer returns to what the layer was given"
        fix = "write to a copy; compare_models compares such a model without its gradients"
        raise UsageError("TP0801", f"{message}: gradients of its layers cannot be had", fix=fix) from error


def _truth(
    reference: WatchedModel, parameters: Mapping[str, Tensor], witness: Witness, cut: RunCut
) -> StoredTensors | None:
    """The gradients in float64; None if the model cannot be run in it.

    The weights of one module are in float64 at a time. If some are used outside the call of their module, the pass is
    done again with these in float64 all the time and, if that is not enough, with all.
    """

    def passed(always: Iterable[Tensor]) -> Cut | None:
        try:
            with precision.in_float64(reference.model, reference.names, always) as wide:
                side = reference.in_dtype(torch.float64)
                return cut(side, parameters, Witnesses(wide, witness), is_wide=True)
        except TorchportError:
            return None

    probe = passed(())
    if probe is not None and probe.narrow:
        probe = passed(probe.narrow)
    if probe is None or probe.narrow:
        probe = passed([*reference.model.parameters(), *reference.model.buffers()])
    return None if probe is None else probe.found


def _ends(run: _Run, loss: Loss | None, arithmetic: Arithmetic | None) -> Gradients:
    """The gradients of the whole reference in a class of arithmetic, or in float64."""

    def flowed(side: WatchedModel) -> Gradients:
        found = run.scratch.store()
        _flow(side, Flow(values=run.scratch.store()), loss, run.ours.tensors, found)
        return found

    return _run_again(run, arithmetic, flowed)


def _run_again(
    run: _Run, arithmetic: Arithmetic | None, gradients: Callable[[WatchedModel], Gradients]
) -> Gradients:
    """The gradients of the reference in a class of arithmetic, or in float64."""
    with (
        undisturbed(run.pair),
        without_gradients(*run.pair.models),
        torch.enable_grad(),
        run_again(run.pair, run.plan, arithmetic) as side,
    ):
        return gradients(side)
