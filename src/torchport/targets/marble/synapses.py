"""The synapses of one neuron in a graph, in both directions, and what it received in a run.

In: a graph, its arrays, and the id of a neuron. Only `synapses_into` lists whole groups, by portions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble import works
from torchport.targets.marble.arrivals import NOBODY, Arrivals, Place
from torchport.targets.marble.evaluate import by_groups
from torchport.targets.marble.fans import Request, fan, reaches, request
from torchport.targets.marble.fans.lists import is_listed, listing
from torchport.targets.marble.groups import ALONE, Group, Kind, NeuronGraph
from torchport.targets.marble.messages.delivery import portions
from torchport.targets.marble.sparse import NUMBER, added_part, has_added, own_part

Arrays = Mapping[str, Tensor]


@dataclass(frozen=True)
class Synapses:
    """Some synapses, an element for each."""

    source: Tensor
    """The ids of the neurons that they come from; -1 for padding, which has a value but no neuron."""
    target: Tensor
    """The ids of the neurons that they go to."""
    number: Tensor
    """Which of its target's synapses each is. It keeps its number when others are removed."""
    weight: Tensor
    """1 for a synapse of a neuron that is no weighted sum."""

    def __len__(self) -> int:
        return len(self.source)

    def among(self, mask: Tensor) -> Synapses:
        return Synapses(self.source[mask], self.target[mask], self.number[mask], self.weight[mask])


@dataclass(frozen=True)
class Received:
    """What a neuron received in a run, from whom, and what it made of it."""

    synapses: Synapses
    value: Tensor
    """What each of the neurons had that they come from."""
    message: Tensor
    """Each value times its weight."""
    bias: Tensor | None
    """The weight of the synapse from the bias neuron, whose value is 1; None if there is none."""
    result: Tensor
    """The value of the neuron itself."""


def synapses_of(
    graph: NeuronGraph, arrays: Arrays, neuron: int, arrivals: Arrivals | None = None
) -> Synapses:
    """The synapses into a neuron. Arrivals that are handed in save time if many neurons are asked for."""
    known = Arrivals(graph) if arrivals is None else arrivals
    group, result, element = known.find(neuron)
    found = _into(known, arrays, group, torch.tensor([element]), result)
    return found.among(found.source != NOBODY)


def synapses_from(
    graph: NeuronGraph, arrays: Arrays, neuron: int, arrivals: Arrivals | None = None
) -> Synapses:
    """The synapses that leave a neuron."""
    known = Arrivals(graph) if arrivals is None else arrivals
    own, _, _ = known.find(neuron)
    found = []
    for name in known.readers(own.name):
        for part in _parts(known, known.groups[name], arrays):
            places = (part.ids == neuron).nonzero()[:, 0]
            for index in range(len(part.ask.results)):
                some = part.synapses(_reached(part.ask, index, places), index)
                found.append(some.among((some.source == neuron) & _is_there(known.groups[name], some.target)))
    return _joined(found)


def bias_of(
    graph: NeuronGraph, arrays: Arrays, neuron: int, arrivals: Arrivals | None = None
) -> Tensor | None:
    """The weight of the synapse from the bias neuron, whose value is 1; None if there is none."""
    known = Arrivals(graph) if arrivals is None else arrivals
    group, result, element = known.find(neuron)
    if group.work == ALONE:
        bias = arrays[group.weights["bias"]] if "bias" in group.weights else None
        return None if bias is None else bias.reshape(-1)[element]
    own, *_ = _parts(known, group, arrays)
    bias = fan(own.ask, range(element, element + 1), result).bias
    return None if bias is None else bias[0]


def synapses_into(known: Arrivals, arrays: Arrays, group: Group) -> Iterator[Synapses]:
    """The synapses into all neurons of a group, some neurons at a time; those of each neuron are together."""
    parts = _parts(known, group, arrays)
    for result, form in enumerate(group.results):
        widest = sum(part.widest(result) for part in parts)
        for start, stop in portions(form.size, widest):
            neurons = torch.arange(start, stop)
            found = _joined([part.synapses(neurons, result) for part in parts])
            found = found.among(_is_there(group, found.target))
            yield found.among(torch.argsort(found.target, stable=True))


def biases_of(known: Arrivals, arrays: Arrays, group: Group) -> Tensor | None:
    """The biases of all neurons of a group, those of removed ones included; None if they have none."""
    if group.kind is not Kind.WEIGHTED_SUM:
        return None
    if group.work == ALONE:
        return arrays[group.weights["bias"]].reshape(-1) if "bias" in group.weights else None
    own, *_ = _parts(known, group, arrays)
    size = group.results[0].size
    found = [fan(own.ask, range(*some)).bias for some in portions(size, own.widest(0))]
    there = [bias for bias in found if bias is not None]
    return torch.cat(there) if there else None


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
    found, values, start = [], [], 0
    for part in _parts(known, place.group, arrays):
        stop = start + len(part.ask.inputs)
        some, chosen = part.one(place.element, place.result)
        found.append(some)
        if stop > start:
            values.append(works.end_to_end(given[start:stop])[chosen])
        start = stop
    value = torch.cat(values) if values else result.new_empty(0)
    synapses = _joined(found)
    is_sum = place.group.kind is Kind.WEIGHTED_SUM
    bias = bias_of(graph, arrays, neuron, known)
    return Received(synapses, value, value * synapses.weight if is_sum else value, bias, result)


@dataclass(frozen=True)
class _Part:
    """The synapses of a group's own work, or those that were added to it."""

    ask: Request
    ids: Tensor
    """The neurons that its sources are, laid end to end."""
    first: int
    numbers: Tensor | None = None
    """The numbers of synapses in a list, if they do not just count from 0."""

    def synapses(self, neurons: Tensor, result: int) -> Synapses:
        """Those into some neurons of a result."""
        synapses = fan(self.ask, neurons, result)
        there = torch.ones_like(synapses.source, dtype=torch.bool)
        there = there if synapses.present is None else synapses.present
        row, number = there.nonzero(as_tuple=True)
        before = self.first + sum(form.size for form in self.ask.results[:result])
        weight = torch.ones(synapses.source.shape) if synapses.weight is None else synapses.weight
        if self.numbers is not None:
            number = self.numbers[self.ask.arrays["row"].long()[neurons[row]] + number].long()
        return Synapses(self.ids[synapses.source[there]], before + neurons[row], number, weight[there])

    def widest(self, result: int) -> int:
        """How many places a row of synapses into a neuron of a result has."""
        size = self.ask.results[result].size
        if is_listed(self.ask):
            return int(listing(self.ask).row.diff().max()) if size else 0
        return fan(self.ask, range(min(1, size)), result).source.shape[1]

    def one(self, place: int, result: int) -> tuple[Synapses, Tensor]:
        """Those into one neuron, and the places that they come from."""
        synapses = fan(self.ask, range(place, place + 1), result)
        chosen = synapses.source[0] if synapses.present is None else synapses.source[0][synapses.present[0]]
        return self.synapses(torch.tensor([place]), result), chosen


def _parts(known: Arrivals, group: Group, arrays: Arrays) -> list[_Part]:
    ids = [one.flatten() for one in known.at(group.name)]
    forms = known.forms(group.name)
    given = len(group.own_inputs)
    parts = []
    if group.work != ALONE:
        own = request(own_part(group), forms[:given], group.results, arrays, known.sizes)
        parts.append(_Part(own, _end_to_end(ids[:given]), group.first))
    if has_added(group):
        added = request(added_part(group), forms[given:], group.results, arrays, known.sizes)
        numbers = arrays[group.weights[NUMBER]] if NUMBER in group.weights else None
        parts.append(_Part(added, _end_to_end(ids[given:]), group.first, numbers))
    return parts


def _into(known: Arrivals, arrays: Arrays, group: Group, neurons: Tensor, result: int) -> Synapses:
    return _joined([part.synapses(neurons, result) for part in _parts(known, group, arrays)])


def _joined(parts: list[Synapses]) -> Synapses:
    if not parts:
        none = torch.empty(0, dtype=torch.int64)
        return Synapses(none, none, none, torch.empty(0))
    columns = zip(*((one.source, one.target, one.number, one.weight) for one in parts), strict=True)
    return Synapses(*(torch.cat(column) for column in columns))


def _is_there(group: Group, targets: Tensor) -> Tensor:
    """Whether neurons of a group were not removed."""
    return ~torch.isin(targets, torch.tensor(sorted(group.removed), dtype=torch.int64) + group.first)


def _run(
    graph: NeuronGraph, arrays: Arrays, inputs: Sequence[Tensor], place: Place
) -> tuple[list[Tensor], Tensor]:
    """What arrived at a neuron's group in a run, and what the neuron made of it."""
    kept: list[tuple[list[Tensor], Tensor]] = []

    def compute(group: Group, given: Sequence[Tensor], own: Arrays, sizes: works.Sizes) -> list[Tensor]:
        results = works.compute(group, given, own, sizes)
        if group.name == place.group.name:
            kept.append((list(given), results[place.result].reshape(-1)[place.element].clone()))
        return results

    given = {group.name: value for group, value in zip(graph.inputs, inputs, strict=True)}
    if place.group.name in given:
        return [], given[place.group.name].reshape(-1)[place.element]
    by_groups(graph, arrays, inputs, opened=None, compute=compute)
    if not kept:
        raise NeuronError(
            "TP0904",
            f"nothing is known of what arrives at the neurons of {place.group.name} in such a run",
            fix="Ask for neurons that are computed in it: no memories, control flow, or branches that are not taken.",
        )
    return kept[-1]


def _check_sizes(graph: NeuronGraph, inputs: Sequence[Tensor]) -> None:
    for group, value in zip(graph.inputs, inputs, strict=True):
        expected = group.results[0].shape
        if tuple(value.shape) != expected:
            raise NeuronError(
                "TP0905",
                f"the input {group.name} has the shape {tuple(value.shape)}, and neurons have ids for {expected}",
            )


def _end_to_end(ids: list[Tensor]) -> Tensor:
    return torch.cat(ids) if ids else torch.empty(0, dtype=torch.int64)


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
