"""What the culprit would compute if one of its operations, or its weights, were others.

In: a suspect, and the result that an operation would have, or other weights. Out: the value that the culprit then
computes at the key at which it diverged, to be compared with what the port computed there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.explain.bound_operation import COPY, BoundOperation
from torchport.explain.noted_run import CANNOT_COMPUTE, NotedRun
from torchport.explain.slice import downstream
from torchport.explain.suspect import Suspect

_NAMELESS_INPUT = re.compile(r"input_\d+")


@dataclass(frozen=True)
class WrongValue:
    """A value of the suspect that is known to be another in the candidate, and the candidate's."""

    ref: g.Ref
    observed: torch.Tensor


def wrong_result(node: str, observed: torch.Tensor | None) -> WrongValue | None:
    return None if observed is None else WrongValue(g.Ref(node), observed)


def differing(suspect: Suspect) -> WrongValue:
    """The value at the suspect's key."""
    output = suspect.slice.graph.root.outputs[suspect.slice.outputs.index(suspect.key)]
    return WrongValue(output, suspect.observed[suspect.key])


def bind(suspect: Suspect) -> dict[str, BoundOperation]:
    """Every operation of the suspect with its operands, by the name of its node, in the order of the run."""
    run = NotedRun(suspect.slice.graph, suspect.capture.weights, suspect.plan)
    run.run(suspect.inputs)
    names, values, weights = _names(suspect), _values(suspect, run), _weights(suspect)
    layer: dict[str, BoundOperation] = {}
    for name, applied in run.applied.items():
        later = downstream(suspect.slice.graph.root.nodes, name)
        layer[name] = BoundOperation(
            node=applied.node,
            overload=run.overload(applied.node.op),
            arguments=operations.bind(applied.node.op, applied.args, applied.kwargs),
            result=applied.result,
            names=names,
            values=_named({node: value for node, value in values.items() if node not in later}, names),
            weights=weights,
            layer=layer,
        )
    return layer


def bound_value(suspect: Suspect, layer: Mapping[str, BoundOperation], wrong: WrongValue) -> BoundOperation:
    """The operation that computes a value or, if none of the layer does, a copy of it; with what the candidate has."""
    known = layer.get(wrong.ref.name)
    if known is not None and isinstance(known.result, torch.Tensor):
        return replace(known, observed=wrong.observed)
    run = NotedRun(suspect.slice.graph, suspect.capture.weights, suspect.plan)
    run.run(suspect.inputs)
    names, values = _names(suspect), _values(suspect, run)
    given = dict(zip(suspect.slice.graph.root.inputs, suspect.inputs, strict=True))
    golden = next((value for item, value in given.items() if item.name == wrong.ref.name), None)
    if golden is None:
        result = layer[wrong.ref.name].result if wrong.ref.name in layer else None
        golden = result[wrong.ref.index] if isinstance(result, list | tuple) else suspect.golden(suspect.key)
    return BoundOperation(
        node=g.Node(wrong.ref.name, COPY, (wrong.ref,), {}, ()),
        overload=operations.overload(COPY),
        arguments={"self": golden},
        result=golden,
        names=names,
        observed=wrong.observed,
        values=_named({node: value for node, value in values.items() if node != wrong.ref.name}, names),
        weights=_weights(suspect),
        layer=layer,
    )


def _values(suspect: Suspect, run: NotedRun) -> dict[str, torch.Tensor]:
    """Every input and every result that is one tensor, by its name in the graph; what is around it by its key."""
    inputs = {
        item.name: value for item, value in zip(suspect.slice.graph.root.inputs, suspect.inputs, strict=True)
    }
    results = {name: one.result for name, one in run.applied.items() if isinstance(one.result, torch.Tensor)}
    return {**inputs, **suspect.around, **results}


def _named(values: Mapping[str, torch.Tensor], names: Mapping[str, str]) -> dict[str, torch.Tensor]:
    """The values by the names of the user's code; of several that have one name, all but the first by the graph's."""
    found: dict[str, torch.Tensor] = {}
    for node, value in values.items():
        name = names.get(node, node)
        found[node if name in found else name] = value
    return found


def _weights(suspect: Suspect) -> dict[str, torch.Tensor]:
    return {**suspect.other_weights, **suspect.capture.weights}


def _names(suspect: Suspect) -> dict[str, str]:
    """What the user's code calls each value of the slice; a trace key for an input that it gives no name."""
    root = suspect.slice.graph.root
    return {node.name: node.hint or node.name for node in root.nodes} | root.params | input_names(suspect)


def input_names(suspect: Suspect) -> dict[str, str]:
    """What the user's code, or else the trace, calls each input of the slice."""
    names: dict[str, str] = {}
    for item, key in zip(suspect.slice.graph.root.inputs, suspect.slice.inputs, strict=True):
        own = item.hint or item.name
        names[item.name] = key if _NAMELESS_INPUT.fullmatch(own) else own
    return names


def predict(
    suspect: Suspect,
    *,
    results: Mapping[str, Any] | None = None,
    weights: Mapping[str, torch.Tensor] | None = None,
    inputs: Mapping[int, torch.Tensor] | None = None,
) -> torch.Tensor | None:
    """The value that the suspect computes at its key, or None if the rest cannot compute with that.

    `results` has other results for some operations, by the names of their nodes; `weights` has other weights, and
    `inputs` other inputs by their positions.
    """
    run = NotedRun(
        suspect.slice.graph, {**suspect.capture.weights, **(weights or {})}, suspect.plan, replaced=results
    )
    try:
        run.run([(inputs or {}).get(index, value) for index, value in enumerate(suspect.inputs)])
    except CANNOT_COMPUTE:
        return None
    return run.values.get(suspect.here(suspect.key))
