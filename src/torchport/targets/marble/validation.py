"""Whether a graph computes what its model computes, at the border of every layer.

In: a `Core`, the model, and inputs. The model is recorded as for every port. The graph runs along the recording twice,
with golden values at every border (own errors) and with what it computed itself (chained errors). Out: a `Validation`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from torchport.capture.eager import tensors, where_the_model_is
from torchport.capture.recorder import Capture, record
from torchport.errors import NeuronError
from torchport.parity.compare import compare_traces
from torchport.parity.result import Layer, Measured, Parity
from torchport.parity.rulebook import RuleBook
from torchport.parity.tolerance import NoiseFloor
from torchport.targets.base import Mode
from torchport.targets.following import Follower
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.groups import Border
from torchport.targets.marble.model import inputs_of
from torchport.targets.marble.recipes import RECIPES
from torchport.targets.marble.running import device_of, outputs_of
from torchport.targets.marble.tolerances import OfLargest, checked_tolerance, default_tolerance
from torchport.targets.marble.ways import By
from torchport.trace.plan import Call, Plan, output_keys
from torchport.trace.writing import write_tensors

_MODES: tuple[Mode, ...] = ("lockstep", "chained")


class ValidatedLayer(BaseModel):
    """One call of a layer. Errors are the largest ones, as shares of the largest magnitude of the value."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    name: str
    type: str
    passed: bool
    own_error: float | None
    """From golden inputs; None if nothing was compared."""
    chained_error: float | None
    """From what the layers before it computed."""
    reason: str | None


class Validation(BaseModel):
    """The verdict on a graph, the layers that differ, and the errors of all of them."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    passed: bool
    name: str
    by: str
    device: str
    rule: str
    tolerance: float | None
    """The tolerance that was given; None if layers were judged by the noise floor."""
    compared: int
    """The values that were compared."""
    differing: tuple[str, ...]
    """The layers that differ by themselves, or the first at which errors have added up to too much."""
    uncompared: tuple[str, ...]
    """Layers of the model that have no border in the graph, such as those inside a layer with its own converter."""
    output_error: float | None
    """The largest chained error of an output, as a share of its largest magnitude."""
    output_rule: str | None
    """The rule by which that was judged."""
    layers: tuple[ValidatedLayer, ...]


def validate(
    core: Core,
    model: nn.Module,
    example_inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tolerance: float | None = None,
    by: By = "groups",
) -> Validation:
    """Runs model and graph on the same inputs, and compares the outputs and what passes every border.

    Without a tolerance, a layer is judged by the noise floor, and the outputs by the default tolerance of the device.
    With one, both are judged by that.
    """
    given = None if tolerance is None else checked_tolerance(tolerance)
    device = device_of(core)
    args, named = where_the_model_is(model, (inputs_of(example_inputs, kwargs), dict(kwargs or {})))
    capture = record(
        model,
        args,
        named,
        name=core.graph.name,
        dynamic={},
        variants=False,
        decompose=lambda operation: operation not in RECIPES,
    )
    if not capture.has_values:
        raise NeuronError("TP0905", "the model is on the meta device, so that there is nothing to compare")
    inputs = [value.to(device) for value in tensors((args, named))]
    rules = _rules(given, device)
    parity, uncompared = _compared(core, capture, inputs, rules, by)
    return Validation(
        passed=parity.passed,
        name=core.graph.name,
        by=by,
        device=device,
        rule=parity.rule,
        tolerance=given,
        compared=parity.compared,
        differing=_differing(parity),
        uncompared=uncompared,
        output_error=_share(parity.outputs),
        output_rule=None if parity.outputs is None else parity.outputs.rule,
        layers=tuple(_layer(layer) for layer in parity.layers),
    )


def _rules(given: float | None, device: str) -> RuleBook:
    if given is not None:
        return RuleBook.of(OfLargest(given), OfLargest(given))
    floor = NoiseFloor()
    return RuleBook(
        floor.name,
        lambda value: floor,
        lambda value: OfLargest(default_tolerance(device, value.golden_dtype)),
    )


def _compared(
    core: Core, capture: Capture, inputs: Sequence[Tensor], rules: RuleBook, by: By
) -> tuple[Parity, tuple[str, ...]]:
    plan = capture.plan
    root = _root_of(core)
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / f"{name}.safetensors" for name in ("golden", "truth", *_MODES)}
        metadata = {"schema": "1", "root": plan.root}
        write_tensors(files["golden"], capture.golden, metadata, aliases=plan.aliases)
        if capture.truth:
            write_tensors(files["truth"], capture.truth, metadata)
        for mode in _MODES:
            with Follower(files["golden"], mode, files[mode], notes_calls=False) as follower:
                _follow(core, inputs, by, follower, root, plan)
        known = {_renamed(key, root, plan.root) for key in _keys(core)} | set(plan.calls[plan.root].outputs)
        calls, events, uncompared = _with_borders(plan, known)
        parity = compare_traces(
            files["golden"],
            files["lockstep"],
            files["chained"],
            calls=calls,
            events=events,
            truth=files["truth"] if capture.truth else None,
            rules=rules,
            pictures=False,
        )
    return parity, uncompared


def _follow(
    core: Core, inputs: Sequence[Tensor], by: By, follower: Follower, root: str | None, plan: Plan
) -> None:
    """Runs the graph along the recording. Its outputs are recorded by their places, whatever their borders are."""

    def watch(key: str, value: Tensor) -> Tensor:
        return follower.watch(_renamed(key, root, plan.root), value.cpu()).to(value.device)

    outputs = outputs_of(core, inputs, by=by, watch=watch)
    keys = plan.calls[plan.root].outputs
    if len(keys) != len(outputs):
        raise NeuronError("TP0905", f"the model gives {len(keys)} tensors, and the graph {len(outputs)}")
    for key, value in zip(keys, outputs, strict=True):
        follower.watch(key, value.cpu())
    follower.returned([value.cpu() for value in outputs])


def _keys(core: Core) -> list[str]:
    return [step.key for step in core.graph.steps if isinstance(step, Border)]


def _root_of(core: Core) -> str | None:
    """What the model itself is called at its borders, which is another name if it was not captured by torch.export."""
    keys = _keys(core)
    return keys[0].rpartition("<")[0] if keys and "<" in keys[0] else None


def _renamed(key: str, own: str | None, root: str) -> str:
    if own is None or own == root:
        return key
    is_root = key in output_keys(own, 1) or key.startswith((f"{own}<", f"{own}:"))
    return f"{root}{key.removeprefix(own)}" if is_root else key


def _with_borders(plan: Plan, known: set[str]) -> tuple[list[Call], list[tuple[str, str]], tuple[str, ...]]:
    """The calls whose values pass borders of the graph, and the names of the others."""
    kept = {
        name
        for name, call in plan.calls.items()
        if call.parent is None or all(key in known for key in (*call.inputs, *call.outputs))
    }
    calls = [
        replace(call, parent=_kept_parent(plan, call, kept))
        for call in plan.calls.values()
        if call.name in kept
    ]
    events = [(kind, name) for kind, name in plan.events if name in kept]
    return calls, events, tuple(name for name in plan.calls if name not in kept)


def _kept_parent(plan: Plan, call: Call, kept: set[str]) -> str | None:
    parent = call.parent
    while parent is not None and parent not in kept:
        parent = plan.calls[parent].parent
    return parent


def _differing(parity: Parity) -> tuple[str, ...]:
    names = [layer.name for layer in parity.layers if not layer.passed]
    first = parity.first_divergence
    return tuple(dict.fromkeys([*names, *([first.layer] if first is not None else [])]))


def _layer(layer: Layer) -> ValidatedLayer:
    return ValidatedLayer(
        name=layer.name,
        type=layer.type,
        passed=layer.passed,
        own_error=_share(layer.own),
        chained_error=_share(layer.chained),
        reason=layer.reason,
    )


def _share(measured: Measured | None) -> float | None:
    """The largest error as a share of the largest magnitude; infinite if a NaN or an infinity is out of place."""
    if measured is None:
        return None
    if measured.incomparable is not None or measured.nan_mismatches or measured.inf_mismatches:
        return float("inf")
    if measured.max_abs == 0:
        return 0.0
    return measured.max_abs / measured.golden_max if measured.golden_max else float("inf")
