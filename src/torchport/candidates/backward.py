"""The gradients of a candidate that runs in PyTorch against those of the reference.

In: as for the forward pass. Out: a report whose layers are parameters and the inputs of calls, in the order of the
backward pass. The float64 truth and the culprit are those of the forward pass, run backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from torchport.arithmetic.classes import FLOAT32, Arithmetic, find_arithmetic
from torchport.candidates import leaves, precision
from torchport.candidates.checkpoints import gradients_at, without_gradients
from torchport.candidates.cuts import Cut, Flow, Gradients, Starts
from torchport.candidates.emulated import run_again
from torchport.candidates.explaining import ComparedGradients
from torchport.candidates.forward import notes_on, source_of
from torchport.candidates.names import Map
from torchport.candidates.pair import ModelPair, pair_up, undisturbed
from torchport.candidates.paths import own_parameters, parameters_of, uncompiled
from torchport.candidates.return_plan import GradientsFound, compared_gradients_of, with_joined
from torchport.candidates.state_rows import StateRuns, with_state
from torchport.candidates.state_watch import StateWatch
from torchport.candidates.suspects import ComparedModels
from torchport.candidates.verdict import Comparison, judge
from torchport.candidates.watched_model import WatchedModel
from torchport.capture.state import alone
from torchport.errors import RunError, TorchportError, UsageError
from torchport.events import Steps
from torchport.parity.rulebook import NOISE_FLOOR, rules_for
from torchport.runs.report import Report

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
    _must_take_gradients(pair)
    steps = Steps()
    with undisturbed(pair), without_gradients(*pair.models), torch.enable_grad():
        comparison = _run(pair, loss, StateRuns.of(pair, state), steps, measured=rules is NOISE_FLOOR)
    if not explain:
        comparison.subject = None
    name = f"{pair.reference.root}_gradients"
    return judge(comparison, name, rules, allowed, None if out is None else Path(out), steps)


@dataclass(frozen=True)
class _Parameters:
    """Of one side, by the reference's name; a tied one has one name."""

    tensors: dict[str, Tensor]
    absent: dict[str, str]


def _run(pair: ModelPair, loss: Loss | None, state: StateRuns, steps: Steps, *, measured: bool) -> Comparison:
    ours = _Parameters({uncompiled(name): one for name, one in pair.reference.model.named_parameters()}, {})
    theirs = _partners(pair, ours.tensors)
    golden = Flow()
    candidate = Flow(golden=golden)
    with steps.step("capture", "running the reference"):
        expected, known = _flow(pair.reference, golden, loss, ours.tensors, state.golden)
        if not any(gradient is not None for gradient in known.values()):
            raise UsageError("TP0801", f"no gradient flows in {pair.reference.root}: nothing can be compared")
    with steps.step("run", "running the candidate"):
        got, chained = _flow(pair.candidate, candidate, loss, theirs.tensors, state.chained)
    if got != expected:
        message = (
            f"the candidate returns {leaves.described(got)} where {leaves.described(expected)} was expected"
        )
        raise RunError("TP0603", message, where=pair.source)
    why_not = pair.why_not(golden, candidate)

    def compared(name: str) -> bool:
        return name in golden.calls and name not in why_not

    def with_inputs(name: str) -> bool:
        return leaves.partners(golden.given_at[name], candidate.given_at[name]) is not None

    def cut(
        side: WatchedModel, parameters: Mapping[str, Tensor], witness: StateWatch | None = None
    ) -> Gradients:
        probe = Cut(golden, known, compared, with_inputs)

        def back(_: Any) -> Gradients:
            with side.errors_with_a_code():
                return gradients_at(probe, probe.starts, parameters)

        gradients: Gradients = side.run(probe, back, witness)
        return gradients

    shown, truth = known, {}
    if measured:
        with steps.step("capture", "running the reference"):
            if (dtype := pair.coarser) is not None:
                shown = _in_the_candidates_dtype(
                    pair.reference, dtype, lambda side: cut(side, ours.tensors, state.coarser)
                )
            truth = _truth(pair.reference, lambda side: cut(side, ours.tensors, state.truth))
    with steps.step("run", "running the candidate"):
        own = cut(pair.candidate, theirs.tensors, state.own)
    found = GradientsFound(
        flow=golden,
        compared=compared,
        with_inputs=with_inputs,
        why_not=why_not,
        absent=theirs.absent,
        owners=_owners(pair.reference.model),
        golden=known,
        shown=shown,
        truth=truth,
        own=own,
        chained=chained,
        source=lambda call: source_of(pair, candidate.calls, call),
    )
    comparison = compared_gradients_of(found)
    if measured:
        ends = partial(_ends, pair, loss, ours.tensors)
        comparison.ends = lambda: with_joined(ends(None), comparison)
        comparison.emulate_all = lambda arithmetic: with_joined(ends(arithmetic), comparison)
        comparison.emulate = lambda arithmetic, _: _emulated(
            pair, arithmetic, lambda side: cut(side, ours.tensors)
        )
    comparison.notes = notes_on(pair, filter(compared, golden.calls), golden, candidate)
    comparison.precision = None if pair.coarser is None else str(pair.coarser).removeprefix("torch.")
    comparison.subject = ComparedGradients(
        ComparedModels(pair, golden.plan(compared, with_inputs)),
        {key: gradient for key, gradient in known.items() if gradient is not None},
        comparison.golden,
        comparison.lockstep,
        found.calls_with,
    )
    return with_state(comparison, state, first=True)


def _must_take_gradients(pair: ModelPair) -> None:
    for side in (pair.reference, pair.candidate):
        for name, parameter in parameters_of(side.model).items():
            if parameter.is_inference():
                message = f"{name} of the {side.label} was made in inference mode, so that no gradient can flow to it"
                raise UsageError("TP0801", message, fix="make the model outside of torch.inference_mode()")


def _partners(pair: ModelPair, ours: Mapping[str, Tensor]) -> _Parameters:
    """The candidate's parameter for each of the reference's, which goes by any of its names where it is tied."""
    known = own_parameters(pair.candidate.model)
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
    for name, parameter in parameters_of(model).items():
        names.setdefault(parameter, []).append(name)
    return {every[0]: [name.rpartition(".")[0] for name in every] for every in names.values()}


def _flow(
    side: WatchedModel,
    probe: Flow,
    loss: Loss | None,
    parameters: Mapping[str, Tensor],
    witness: StateWatch | None = None,
) -> tuple[Any, Gradients]:
    """One forward and backward pass: the structure of the outputs, and the gradients at every border."""

    def back(result: Any) -> tuple[Any, Gradients]:
        structure = leaves.structure(result)
        outputs = [tensor for _, tensor in leaves.tensors(result)]
        with side.errors_with_a_code():
            starts: Starts = _cotangents(outputs) if loss is None else [(_scalar(loss(result)), None)]
            return structure, gradients_at(probe, starts, parameters)

    flow: tuple[Any, Gradients] = side.deterministic(probe, back, witness)
    return flow


def _cotangents(outputs: list[Tensor]) -> list[tuple[Tensor, Tensor | None]]:
    random = torch.Generator().manual_seed(SEED)
    found: list[tuple[Tensor, Tensor | None]] = []
    for output in outputs:
        if output.is_floating_point():
            found.append((output, torch.randn(output.shape, generator=random).to(output)))
        elif output.is_complex():
            numbers = torch.randn(output.shape, generator=random, dtype=torch.complex64)
            found.append((output, numbers.to(output)))
    return found


def _scalar(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise UsageError("TP0801", "loss= does not give a scalar tensor", fix="return for example x.sum()")
    return value


def _truth(reference: WatchedModel, cut: Callable[[WatchedModel], Gradients]) -> Gradients:
    try:
        with precision.in_float64(reference.model):
            return cut(reference.in_dtype(torch.float64))
    except TorchportError:
        return {}


def _emulated(
    pair: ModelPair, arithmetic: Arithmetic, cut: Callable[[WatchedModel], Gradients]
) -> Mapping[str, Tensor]:
    """The gradients of the reference in a class of arithmetic, from golden values."""
    return _there(pair, arithmetic, cut)


def _ends(
    pair: ModelPair, loss: Loss | None, parameters: Mapping[str, Tensor], arithmetic: Arithmetic | None
) -> Mapping[str, Tensor]:
    """The gradients of the whole reference in a class of arithmetic, or in float64."""
    return _there(pair, arithmetic, lambda side: _flow(side, Flow(), loss, parameters)[1])


def _there(
    pair: ModelPair, arithmetic: Arithmetic | None, run: Callable[[WatchedModel], Gradients]
) -> Mapping[str, Tensor]:
    """Those gradients that are there; none if the reference cannot be run so."""
    try:
        with (
            undisturbed(pair),
            torch.enable_grad(),
            run_again(pair.reference, pair.coarser, arithmetic) as side,
        ):
            return {key: value for key, value in run(side).items() if value is not None}
    except TorchportError:
        return {}


def _in_the_candidates_dtype(
    reference: WatchedModel, dtype: torch.dtype, cut: Callable[[WatchedModel], Gradients]
) -> Gradients:
    try:
        with precision.in_dtype(reference.model, dtype):
            return cut(reference.in_dtype(dtype))
    except TorchportError as error:
        raise UsageError(
            "TP0801",
            f"the reference does not run in {dtype}, the candidate's dtype: {error.message}",
            fix="give rtol or atol",
        ) from error
