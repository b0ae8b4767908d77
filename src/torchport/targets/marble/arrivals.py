"""Whose values arrive at a group: the ids of neurons, carried through borders, assemblies and wiring.

Wiring is done on ids instead of values. An id counts from 1 on the way, so that 0, which padding and the upper half of
a matrix leave behind, means that nobody is there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble import works
from torchport.targets.marble.fans import Request, request
from torchport.targets.marble.groups import Assembly, Border, Flow, Form, Group, Kind, NeuronGraph, Port
from torchport.targets.marble.sparse import own_part

NOBODY = -1
_LEAVES_GAPS = frozenset(
    f"aten.{name}"
    for name in ("constant_pad_nd.default", "pad.default", "tril.default", "triu.default", "im2col.default")
)
"""Wiring whose result may have places that no neuron's value comes to."""
_REMEMBERED = 64
"""Results of wiring that are kept."""


class Place(NamedTuple):
    """Where a neuron is: its group, which of the group's results, and which element of that."""

    group: Group
    result: int
    element: int


class Arrivals:
    """The ids of the neurons whose values arrive at the groups of a graph, for the example's sizes."""

    def __init__(self, graph: NeuronGraph) -> None:
        self.graph = graph
        self.groups = {group.name: group for group in graph.groups()}
        self.sizes = {size.name: size.example for size in graph.free}
        self._same = dict(_equals(graph))
        self._through_wiring = lru_cache(_REMEMBERED)(self._wired)

    def at(self, group_name: str) -> list[Tensor]:
        """The ids that arrive at each input of a group, in the shape of what arrives; `NOBODY` for none."""
        return [self._ids(port) - 1 for port in self.groups[group_name].inputs]

    def ids(self, port: Port) -> Tensor:
        """The ids of the neurons whose values are at a port; `NOBODY` for none."""
        return self._ids(port) - 1

    def forms(self, group_name: str) -> list[Form]:
        """The forms of what arrives at a group."""
        return [self.form(port) for port in self.groups[group_name].inputs]

    def request(self, group_name: str, arrays: Mapping[str, Tensor]) -> Request:
        """What the synapses of a group's own work are asked for by."""
        group = own_part(self.groups[group_name])
        return request(group, self.forms(group_name)[: len(group.inputs)], group.results, arrays, self.sizes)

    def may_lack(self, group_name: str) -> bool:
        """Whether some of what arrives may come from nobody."""
        return any(self._has_gaps(port) for port in self.groups[group_name].inputs)

    def readers(self, group_name: str) -> list[str]:
        """The groups that values of a group arrive at."""
        return self._readers.get(group_name, [])

    def find(self, neuron: int) -> Place:
        """Where the neuron with an id is, or was before it was removed."""
        index = bisect_right(self._firsts, neuron) - 1
        if index < 0 or neuron not in self.with_ids[index].ids:
            end = self.with_ids[-1].ids.stop if self.with_ids else 0
            raise NeuronError("TP0901", f"there is no neuron {neuron}: ids are below {end}")
        group = self.with_ids[index]
        result, element = 0, neuron - group.first
        while element >= group.results[result].size:
            element -= group.results[result].size
            result += 1
        return Place(group, result, element)

    @cached_property
    def with_ids(self) -> list[Group]:
        """The groups that have ids, in the order of those."""
        return sorted((group for group in self.groups.values() if len(group.ids)), key=lambda one: one.first)

    @cached_property
    def _firsts(self) -> list[int]:
        return [group.first for group in self.with_ids]

    @cached_property
    def _readers(self) -> dict[str, list[str]]:
        sources: dict[str, frozenset[str]] = {}
        readers: dict[str, list[str]] = {}
        for group in self.groups.values():
            origins = [self._origin(port).name for port in group.inputs]
            found = (sources[name] if name in sources else frozenset({name}) for name in origins)
            arriving = frozenset().union(*found)
            if group.kind is Kind.WIRING:
                sources[group.name] = arriving
            else:
                for name in sorted(arriving):
                    readers.setdefault(name, []).append(group.name)
        return readers

    def _port(self, port: Port) -> Port:
        """The group's own result that is the same as that of a border or an assembly."""
        while port in self._same:
            port = self._same[port]
        return port

    def _origin(self, port: Port) -> Group:
        return self.groups[self._port(port).group]

    def form(self, port: Port) -> Form:
        """The form of what is at a port."""
        own = self._port(port)
        return self.groups[own.group].results[own.index]

    def _has_gaps(self, port: Port) -> bool:
        group = self._origin(port)
        if group.kind is not Kind.WIRING:
            return False
        return group.work in _LEAVES_GAPS or any(self._has_gaps(given) for given in group.inputs)

    def _ids(self, port: Port) -> Tensor:
        """Ids that count from 1."""
        own = self._port(port)
        group = self.groups[own.group]
        if group.kind is Kind.WIRING:
            return self._through_wiring(group.name)[own.index]
        form = group.results[own.index]
        start = group.first + sum(before.size for before in group.results[: own.index]) + 1
        return torch.arange(start, start + form.size).reshape(form.shape)

    def _wired(self, group_name: str) -> list[Tensor]:
        """Wiring done on ids, as float64, which every operation takes and which is exact for them."""
        group = self.groups[group_name]
        options = {**group.options, **({"value": 0} if "value" in group.options else {})}
        plain = Group(**{**vars(group), "options": options})
        given = [self._ids(port).double() for port in group.inputs]
        return [result.long() for result in works.compute(plain, given, {}, self.sizes)]


def _equals(graph: NeuronGraph) -> Iterator[tuple[Port, Port]]:
    """The ports of borders and assemblies, each with the one whose values it has."""
    for step in graph.steps:
        if isinstance(step, Border):
            yield Port(step.name), step.value
        elif isinstance(step, Assembly):
            yield from ((Port(step.name, index), port) for index, port in enumerate(step.outputs))
        elif isinstance(step, Flow):
            yield from (
                (Port(step.name, index), Port(step.joint.name, index))
                for index in range(len(step.joint.results))
            )
            for body in step.bodies.values():
                yield from _equals(body)
