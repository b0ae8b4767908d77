"""The gradients of a candidate that runs in PyTorch against those of the reference.

In: as for the forward pass. Out: a report whose layers are parameters and the inputs of calls, in the order of the
backward pass. The float64 truth and the culprit are those of the forward pass, run backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchport.candidates import leaves, precision
from torchport.candidates.call_pairing import CallPairs, pair_calls
from torchport.candidates.cuts import Cut, Flow, Start, gradients_of
from torchport.candidates.explaining import ComparedGradients
from torchport.candidates.forward import source_of
from torchport.candidates.fusing import fused_stretches, parameters_inside, with_fused
from torchport.candidates.golden import make_plan
from torchport.candidates.names import Map
from torchport.candidates.pair import ModelPair, pair_up, parameters_of, undisturbed
from torchport.candidates.probing import Witness
from torchport.candidates.return_plan import GradientsFound, compared_gradients_of
from torchport.candidates.stored_tensors import RenamedTensors, Scratch, scratch_folder
from torchport.candidates.stored_tensors import StoredTensors as Store
from torchport.candidates.suspects import ComparedModels
from torchport.candidates.verdict import Comparison, judge
from torchport.candidates.watched_model import WatchedModel
from torchport.errors import RunError, TorchportError, UsageError
from torchport.events import Steps
from torchport.parity.rulebook import NOISE_FLOOR, rules_for
from torchport.runs.report import Report
from torchport.trace.plan import input_key, output_key

Loss = Callable[[Any], Tensor]
SEED = 0


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
) -> Report:
    """Compares the gradients of every parameter and of the inputs, by name.

    `loss` makes a scalar of what the model returns. Without it, the loss is the sum of all floating outputs, each
    element times a normal random number, the same ones for both (a fixed seed). If a gradient diverges, `explain` looks
    for the operation and the cause.
    """
    rules = rules_for(rtol, atol)
    pair = pair_up(reference, candidate, args, kwargs, layers=layers, wish=map)
    steps = Steps()
    with scratch_folder() as scratch:
        with undisturbed(pair), torch.enable_grad():
            comparison = _run(pair, loss, steps, scratch, measured=rules is NOISE_FLOOR)
        if not explain:
            comparison.subject = None
        name = f"{pair.reference.root}_gradients"
        return judge(comparison, name, rules, None if out is None else Path(out), steps)


@dataclass(frozen=True)
class _Parameters:
    """Of one side, by the reference's name; a tied one has one name."""

    tensors: dict[str, Tensor]
    absent: dict[str, str]


def _run(pair: ModelPair, loss: Loss | None, steps: Steps, scratch: Scratch, *, measured: bool) -> Comparison:
    ours = _Parameters(dict(pair.reference.model.named_parameters()), {})
    theirs = _partners(pair, ours.tensors)
    golden, candidate = Flow(values=scratch.store()), Flow(values=scratch.store())
    known, arrived = scratch.store(), scratch.store()
    with steps.step("capture", "running the reference"):
        expected = _flow(pair.reference, golden, loss, ours.tensors, known)
        if not known:
            raise UsageError("TP0801", f"no gradient flows in {pair.reference.root}: nothing can be compared")
    with steps.step("run", "running the candidate"):
        got = _flow(pair.candidate, candidate, loss, theirs.tensors, arrived)
    if not leaves.is_same_structure(got, expected):
        message = (
            f"the candidate returns {leaves.described(got)} where {leaves.described(expected)} was expected"
        )
        raise RunError("TP0603", message, where=pair.source)
    pairs = pair_calls(golden, candidate, pair.absent, pair.groups)
    pair = pair.with_calls(pairs.known_as(golden))
    stretches = fused_stretches(pair, golden, candidate, pairs)
    pairs, owners = with_fused(pairs, stretches), _owners(pair.reference.model)
    plan = make_plan(golden, candidate, pairs, source=partial(source_of, pair, pairs, candidate))
    plan.values = golden.values
    candidate.values.clear()
    flowing = golden.flowing

    def cut(side: WatchedModel, parameters: Mapping[str, Tensor], wide: Witness | None = None) -> Cut:
        probe = Cut(plan, side.label, known, flowing, parameters, scratch.store(), is_wide=wide is not None)
        side.run(probe, witness=wide)
        return probe

    shown, truth = known, scratch.store()
    if measured:
        with steps.step("capture", "running the reference"):
            if (dtype := pair.coarser) is not None:
                shown = _in_the_candidates_dtype(
                    pair.reference, dtype, lambda side: cut(side, ours.tensors).found
                )
            truth = _truth(pair.reference, ours.tensors, cut) or truth
    with steps.step("run", "running the candidate"):
        own = cut(pair.candidate, theirs.tensors).found
    found = GradientsFound(
        flow=golden,
        plan=plan,
        why_not=pairs.why_not,
        absent=theirs.absent | parameters_inside(stretches, golden, owners),
        owners=owners,
        golden=known,
        shown=shown,
        truth=truth,
        own=own,
        chained=RenamedTensors(arrived, _keys_in_candidate(pairs)),
        new_store=scratch.store,
    )
    comparison = compared_gradients_of(found)
    comparison.notes = pairs.notes
    comparison.precision = None if pair.coarser is None else str(pair.coarser).removeprefix("torch.")
    comparison.subject = ComparedGradients(
        ComparedModels(pair, plan, plan.without_outputs),
        known,
        comparison.golden,
        comparison.lockstep,
        found.calls_with,
    )
    return comparison


def _keys_in_candidate(pairs: CallPairs) -> dict[str, str]:
    """For each key of a border in the reference that in the candidate's own run."""
    found: dict[str, str] = {}
    for name, pair in pairs.calls.items():
        other = pair.candidate
        found |= {input_key(name, index): input_key(other, place) for index, place in pair.inputs.items()}
        found |= {output_key(name, index): output_key(other, place) for index, place in pair.outputs.items()}
    return found


def _partners(pair: ModelPair, ours: Mapping[str, Tensor]) -> _Parameters:
    """The candidate's parameter for each of the reference's, which goes by any of its names where it is tied."""
    known = parameters_of(pair.candidate.model)
    if not known and pair.candidate.is_function:
        known = parameters_of(pair.reference.model)  # those that the function uses get a gradient
    names: dict[Tensor, list[str]] = {}
    for name, parameter in parameters_of(pair.reference.model).items():
        names.setdefault(parameter, []).append(name)
    tensors, absent = {}, {}
    for name, parameter in ours.items():
        targets = [pair.partner[other] for other in names[parameter]]
        there = [known[target] for target in targets if target is not None and target in known]
        if there:
            tensors[name] = there[0]
        elif targets == [None]:
            absent[name] = "map= leaves it out"
        else:
            absent[name] = "the candidate has no such parameter"
    return _Parameters(tensors, absent)


def _owners(model: nn.Module) -> dict[str, list[str]]:
    """For each parameter the paths of the modules that hold it."""
    names: dict[Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return {every[0]: [name.rpartition(".")[0] for name in every] for every in names.values()}


def _flow(
    side: WatchedModel, probe: Flow, loss: Loss | None, parameters: Mapping[str, Tensor], found: Store
) -> Any:
    """One forward and backward pass: the structure of the outputs. The gradients at every border go to `found`."""

    def back(result: Any) -> Any:
        structure = leaves.structure(result)
        starts = _cotangents(leaves.tensors(result)) if loss is None else [(_scalar(loss(result)), None)]
        probe.flowing = frozenset(probe.edges)
        gradients = gradients_of(starts, {**probe.edges, **parameters})
        probe.edges.clear()
        while gradients:
            found.__setitem__(*gradients.popitem())
        return structure

    return side.deterministic(probe, back)


def _cotangents(outputs: list[tuple[leaves.Path, Tensor]]) -> list[Start]:
    """Random numbers for each output, the same for outputs at the same place, in whatever order they come."""
    random = torch.Generator().manual_seed(SEED)
    found: list[Start] = []
    for _, output in sorted(outputs, key=lambda one: repr(one[0])):
        if output.is_floating_point():
            found.append((output, torch.randn(output.shape, generator=random).to(output)))
    return found


def _scalar(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise UsageError("TP0801", "loss= does not give a scalar tensor", fix="return for example x.sum()")
    return value


def _truth(
    reference: WatchedModel, parameters: Mapping[str, Tensor], cut: Callable[..., Cut]
) -> Store | None:
    """The gradients in float64; None if the model cannot be run in it.

    A weight that is used outside the call of its module is not in float64 then. The pass is done again with such
    weights in float64 all the time.
    """

    def passed(always: Iterable[Tensor]) -> Cut:
        with precision.in_float64(reference.names, always) as wide:
            return cut(reference.in_dtype(torch.float64), parameters, wide)

    try:
        probe = passed(())
        return passed(probe.narrow).found if probe.narrow else probe.found
    except TorchportError:
        return None


def _in_the_candidates_dtype(
    reference: WatchedModel, dtype: torch.dtype, cut: Callable[[WatchedModel], Store]
) -> Store:
    try:
        with precision.in_dtype(reference.model, dtype):
            return cut(reference.in_dtype(dtype))
    except TorchportError as error:
        raise UsageError(
            "TP0801",
            f"the reference does not run in {dtype}, the candidate's dtype: {error.message}",
            fix="give rtol or atol",
        ) from error
