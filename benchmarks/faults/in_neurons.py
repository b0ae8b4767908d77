"""Faults in groups of neurons, as a user's edit of a neuron graph would make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torchport.targets.marble.groups import Assembly, Group, Kind, NeuronGraph

from .kinds import of_kind

Change = Callable[[Group], "Group | None"]
NEURONS: dict[str, list[Change]] = {}
_CONFUSED = {
    "relu": "gelu",
    "gelu": "relu",
    "silu": "gelu",
    "tanh": "sigmoid",
    "sigmoid": "tanh",
}
"""A function → the one that it is taken for."""


def fault(kind: str) -> Callable[[Change], Change]:
    return of_kind(NEURONS, kind)


def with_group(graph: NeuronGraph, changed: Group, *, keep: bool = False) -> NeuronGraph:
    """The graph with another group in the place of that of the same name.

    Its assembly is no longer what its operation does; `keep` leaves the operation there, as an edit of a file does.
    """

    def change(step: Assembly) -> Assembly:
        if all(group.name != changed.name for group in step.groups):
            return step
        groups = tuple(changed if group.name == changed.name else group for group in step.groups)
        opened = {} if keep else {"operation": None, "args": (), "kwargs": {}}
        return replace(step, groups=groups, **opened)

    return graph.with_assemblies(change)


def _is_sum(group: Group) -> bool:
    """Whether each neuron adds one value of every input, all of them floating point."""
    return group.kind is Kind.WEIGHTED_SUM and group.work == "aligned" and "float" in group.results[0].dtype


@fault("activation")
def another_function(group: Group) -> Group | None:
    name = group.work.split(".")[1] if group.kind is Kind.FUNCTION else ""
    if name not in _CONFUSED:
        return None
    options = {key: value for key, value in group.options.items() if key == "order"}
    return replace(group, work=f"aten.{_CONFUSED[name]}.default", options=options)


@fault("bias dropped")
def without_bias(group: Group) -> Group | None:
    if "bias" not in group.weights:
        return None
    return replace(group, weights={key: name for key, name in group.weights.items() if key != "bias"})


@fault("epsilon")
def epsilon(group: Group) -> Group | None:
    bias = group.options.get("bias")
    if not _is_sum(group) or not isinstance(bias, float) or not 0 < bias <= 1e-2:
        return None
    return replace(group, options={**group.options, "bias": 1e-4 if bias != 1e-4 else 1e-6})


@fault("sign")
def another_sign(group: Group) -> Group | None:
    factors = group.options.get("factors", [])
    if not _is_sum(group) or len(factors) < 2:
        return None
    return replace(group, options={**group.options, "factors": [*factors[:-1], -factors[-1]]})


@fault("scale of 1.0005")
def slightly_larger(group: Group) -> Group | None:
    if not _is_sum(group):
        return None
    factors = [factor * 1.0005 for factor in group.options["factors"]]
    return replace(group, options={**group.options, "factors": factors})


@fault("pooling")
def another_reduction(group: Group) -> Group | None:
    others = {"max": "mean", "mean": "max", "sum": "mean"}
    if group.kind is not Kind.REDUCTION or group.work not in others or "float" not in group.results[0].dtype:
        return None
    return replace(group, work=others[group.work])


@fault("stride")
def window_moved_by_one(group: Group) -> Group | None:
    stride = group.options.get("stride")
    if group.work != "convolution" or not stride or set(stride) == {1}:
        return None
    return replace(group, options={**group.options, "stride": [1] * len(stride)})


@fault("another operand")
def inputs_exchanged(group: Group) -> Group | None:
    if group.work not in ("quotient", "aten.where.self") or len(group.inputs) < 2:
        return None
    *rest, first, second = group.inputs
    return replace(group, inputs=(*rest, second, first))


@fault("residual dropped")
def synapse_dropped(group: Group) -> Group | None:
    """Of two values that are added one is left out."""
    factors = group.options.get("factors", [])
    if not _is_sum(group) or len(factors) != 2 or "weight0" in group.weights or "weight1" in group.weights:
        return None
    return replace(group, options={**group.options, "factors": [factors[0], 0.0]})
