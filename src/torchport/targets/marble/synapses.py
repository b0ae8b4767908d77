"""The synapses of one neuron in a graph, in both directions, and what it received in a run.

In: a graph, its arrays, and the id of a neuron. Whole groups are never listed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from torchport.errors import UsageError
from torchport.targets.marble import works
from torchport.targets.marble.arrivals import NOBODY, Arrivals, Place
from torchport.targets.marble.evaluate import by_groups
from torchport.targets.marble.fans import Fan, Request, fan, reaches
from torchport.targets.marble.fans.lists import is_listed, listing
from torchport.targets.marble.groups import Group, Kind, NeuronGraph

Arrays = Mapping[str, Tensor]


@dataclass(frozen=True)
class Synapses:
    """The synapses into a neuron."""

    source: Tensor
    """The ids of the neurons that they come from."""
    weight: Tensor
    """1 for a synapse of a neuron that is no weighted sum."""
    bias: Tensor | None
    """The weight of the synapse from the bias neuron, whose value is 1; None if there is none."""


@dataclass(frozen=True)
class Outgoing:
    """The synapses that leave a neuron."""

    target: Tensor
    """The ids of the neurons that they go to."""
    weight: Tensor


@dataclass(frozen=True)
class Received:
    """What a neuron received in a run, from whom, and what it made of it."""

    source: Tensor
    """The ids of the neurons that sent something; -1 for padding, which has a value but no neuron."""
    weight: Tensor
    value: Tensor
    """What each of them had."""
    message: Tensor
    """Each value times its weight."""
    bias: Tensor | None
    result: Tensor
    """The value of the neuron itself."""


def synapses_of(
    graph: NeuronGraph, arrays: Arrays, neuron: int, arrivals: Arrivals | None = None
) -> Synapses:
    """The synapses into a neuron. Arrivals that are handed in save time if many neurons are asked for."""
    known = Arrivals(graph) if arrivals is None else arrivals
    group, result, place = known.find(neuron)
    synapses, there = _fan_of_one(known.request(group.name, arrays), result, place)
    source = _end_to_end(known, group.name)[synapses.source[0][there]]
    somebody = source != NOBODY
    weight = _weights(synapses)[0][there]
    return Synapses(source[somebody], weight[somebody], _bias(synapses))


def synapses_from(
    graph: NeuronGraph, arrays: Arrays, neuron: int, arrivals: Arrivals | None = None
) -> Outgoing:
    """The synapses that leave a neuron."""
    known = Arrivals(graph) if arrivals is None else arrivals
    own, _, _ = known.find(neuron)
    targets, weights = [], []
    for name in known.readers(own.name):
        places = (_end_to_end(known, name) == neuron).nonzero()[:, 0]
        ask, before = known.request(name, arrays), known.groups[name].first
        for index, result in enumerate(ask.results):
            reached = _reached(ask, index, places)
            synapses = fan(ask, reached, index)
            there = torch.isin(synapses.source, places)
            there = there if synapses.present is None else there & synapses.present
            targets.append((before + reached)[:, None].expand(there.shape)[there])
            weights.append(_weights(synapses)[there])
            before += result.size
    if not targets:
        return Outgoing(torch.empty(0, dtype=torch.int64), torch.empty(0))
    return Outgoing(torch.cat(targets), torch.cat(weights))


def received(
    graph: NeuronGraph,
    arrays: Arrays,
    inputs: Sequence[Tensor],
    neuron: int,
    arrivals: Arrivals | None = None,
) -> Received:
    """What a neuron received when the graph was run on some inputs, which must have the sizes of the example."""
    known = Arrivals(graph) if arrivals is None else arrivals
    _check_sizes(graph, inputs)
    place = known.find(neuron)
    given, result = _run(graph, arrays, inputs, place)
    synapses, there = _fan_of_one(known.request(place.group.name, arrays), place.result, place.place)
    chosen = synapses.source[0][there]
    values = works.end_to_end(given)[chosen] if given else result.new_empty(0)
    weight = _weights(synapses)[0][there]
    source = _end_to_end(known, place.group.name)[chosen]
    is_sum = place.group.kind is Kind.WEIGHTED_SUM
    return Received(source, weight, values, values * weight if is_sum else values, _bias(synapses), result)


def _run(
    graph: NeuronGraph, arrays: Arrays, inputs: Sequence[Tensor], place: Place
) -> tuple[list[Tensor], Tensor]:
    """What arrived at a neuron's group in a run, and what the neuron made of it."""
    kept: list[tuple[list[Tensor], Tensor]] = []

    def compute(group: Group, given: Sequence[Tensor], own: Arrays, sizes: works.Sizes) -> list[Tensor]:
        results = works.compute(group, given, own, sizes)
        if group.name == place.group.name:
            kept.append((list(given), results[place.result].reshape(-1)[place.place].clone()))
        return results

    if place.group.kind is Kind.INPUT:
        value = inputs[[group.name for group in graph.inputs].index(place.group.name)]
        return [], value.reshape(-1)[place.place]
    by_groups(graph, arrays, inputs, opened=None, compute=compute)
    return kept[-1]


def _check_sizes(graph: NeuronGraph, inputs: Sequence[Tensor]) -> None:
    for group, value in zip(graph.inputs, inputs, strict=True):
        expected = group.results[0].shape
        if tuple(value.shape) != expected:
            raise UsageError(
                "TP0821",
                f"the input {group.name} has the shape {tuple(value.shape)}, and neurons have ids for {expected}",
            )


def _fan_of_one(ask: Request, result: int, place: int) -> tuple[Fan, Tensor]:
    """The synapses into one neuron, and which of them are there."""
    synapses = fan(ask, range(place, place + 1), result)
    there = torch.ones_like(synapses.source[0], dtype=torch.bool)
    return synapses, there if synapses.present is None else synapses.present[0]


def _end_to_end(known: Arrivals, group_name: str) -> Tensor:
    ids = [one.flatten() for one in known.at(group_name)]
    return torch.cat(ids) if ids else torch.empty(0, dtype=torch.int64)


def _weights(synapses: Fan) -> Tensor:
    return torch.ones(synapses.source.shape) if synapses.weight is None else synapses.weight


def _bias(synapses: Fan) -> Tensor | None:
    return None if synapses.bias is None else synapses.bias[0]


def _reached(ask: Request, index: int, places: Tensor) -> Tensor:
    """The neurons of a result that have a synapse from one of some places."""
    if is_listed(ask):
        return _without_repeats(listing(ask).targets(places))
    shape = ask.results[index].shape
    found = [torch.empty(0, dtype=torch.int64)]
    for reach in reaches(ask, ask.results[index]):
        size = torch.Size(reach.shape).numel()
        inside = places[(places >= reach.start) & (places < reach.start + size)] - reach.start
        found += [reach.targets(place, shape) for place in inside.tolist()]
    return _without_repeats(torch.cat(found))


def _without_repeats(neurons: Tensor) -> Tensor:
    ordered = neurons.sort().values
    return ordered[torch.cat([ordered[:1] >= 0, ordered.diff() != 0])]
