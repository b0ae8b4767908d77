"""Who sends to whom: the synapses into a neuron and out of it, by ids."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torchport.targets.marble import sparse
from torchport.targets.marble.arrivals import arrivals_of
from torchport.targets.marble.core.unrolled import ALONE, own_fan
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.groups import Group


@dataclass(frozen=True)
class Links:
    """Some synapses, an element for each."""

    source: Tensor
    """Ids; -1 for what no neuron sends, such as a margin that is filled with a number."""
    target: Tensor
    number: Tensor
    """Which synapse of its target each is."""
    weight: Tensor

    def __len__(self) -> int:
        return len(self.source)


def into(version: Version, neuron: int) -> Links:
    """The synapses into a neuron. The one from its bias neuron is not among them."""
    place = version.place(neuron)
    return _of(version, place.group, range(place.element, place.element + 1), place.result)


def _of(version: Version, group: Group, neurons: range, result: int = 0) -> Links:
    ids = [one.reshape(-1) for one in arrivals_of(version.graph).at(group.name)]
    first = group.first + sum(form.size for form in group.results[:result])
    parts: list[Links] = []
    count = len(group.own_inputs)
    if count and group.work != ALONE:
        own = own_fan(version, group, neurons)
        present = torch.ones_like(own.source, dtype=torch.bool) if own.present is None else own.present
        row, number = present.nonzero(as_tuple=True)
        weight = torch.ones(own.source.shape) if own.weight is None else own.weight
        source = torch.cat(ids[:count])[own.source[present]]
        parts.append(Links(source, first + neurons.start + row, number, weight[present]))
    arrays = version.arrays_of(group)
    if sparse.ROW in arrays:
        rows = sparse.Rows.of(arrays)
        among = (rows.target >= neurons.start) & (rows.target < neurons.stop)
        source = torch.cat(ids[count:])[rows.source[among]] if ids[count:] else rows.source[among]
        parts.append(Links(source, first + rows.target[among], rows.number[among], rows.weight[among]))
    return _there(group, _joined(parts))


def _there(group: Group, found: Links) -> Links:
    """Without synapses into neurons that were removed."""
    if not group.removed:
        return found
    gone = torch.tensor(sorted(group.removed)) + group.first
    return _among(found, ~torch.isin(found.target, gone))


def _among(found: Links, mask: Tensor) -> Links:
    return Links(found.source[mask], found.target[mask], found.number[mask], found.weight[mask])


def _joined(parts: list[Links]) -> Links:
    none = torch.zeros(0, dtype=torch.int64)
    if not parts:
        return Links(none, none, none, torch.zeros(0))
    return Links(
        *(torch.cat([getattr(p, f) for p in parts]) for f in ("source", "target", "number", "weight"))
    )


def readers(version: Version, neuron: int) -> list[Group]:
    """The groups at which the value of a neuron arrives."""
    known = arrivals_of(version.graph)
    return [
        group
        for group in version.groups.values()
        if group.inputs
        and group.kind.has_neurons
        and any(bool((ids == neuron).any()) for ids in known.at(group.name))
    ]


def out_of(version: Version, neuron: int) -> Links:
    """The synapses that leave a neuron."""
    parts = []
    for group in readers(version, neuron):
        for index, form in enumerate(group.results):
            for at in range(0, form.size, _AT_A_TIME):
                found = _of(version, group, range(at, min(at + _AT_A_TIME, form.size)), index)
                parts.append(_among(found, found.source == neuron))
    return _joined(parts)


_AT_A_TIME = 4096


def is_output(version: Version, neuron: int) -> bool:
    """Whether the graph gives the value of a neuron."""
    known = arrivals_of(version.graph)
    return any(bool((known.of(port) == neuron).any()) for port in version.graph.outputs)
