"""A summary of a neuron graph: how many neurons and synapses it has, by layer and by kind, and what its weights take.

In: a `Core`. Out: a `Summary`, which gives itself as JSON and CSV. Nothing is enumerated to count it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from torchport.targets.marble.core.core import Core
from torchport.targets.marble.core.views import count_in
from torchport.targets.marble.groups import Kind

INPUTS = "(inputs)"
"""The layer that inputs are counted under, since they belong to none."""
COLUMNS = ("layer", "kind", "groups", "neurons", "synapses")


class Share(BaseModel):
    """A part of a graph: its groups, its neurons, and the synapses that arrive at them."""

    model_config = ConfigDict(frozen=True)

    groups: int
    neurons: int
    synapses: int


class Part(Share):
    """The neurons of one kind in one layer."""

    layer: str
    kind: str


class Summary(BaseModel):
    """What a graph consists of. Each synapse counts, also if many share a weight, which is stored once."""

    model_config = ConfigDict(frozen=True)

    name: str
    neurons: int
    synapses: int
    weights_stored: int
    """Numbers in the arrays of the graph."""
    bytes_in_memory: int
    """What these arrays take, each once."""
    layers: dict[str, Share]
    """By layer, in the order in which the layers run."""
    kinds: dict[str, Share]
    parts: tuple[Part, ...]

    def to_csv(self) -> str:
        """One line for each kind of neuron in each layer."""
        text = io.StringIO()
        table = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(part.model_dump() for part in self.parts)
        return text.getvalue()

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)


def summary(core: Core) -> Summary:
    """Counts the neurons, synapses and weights of a graph as it is now."""
    version = core.version
    parts = [
        Part(
            layer=group.layer or (INPUTS if group.kind is Kind.INPUT else version.graph.name),
            kind=group.kind.value,
            groups=1,
            neurons=group.neurons,
            synapses=count_in(version, group),
        )
        for group in version.groups.values()
        if group.kind.has_neurons
    ]
    return Summary(
        name=version.graph.name,
        neurons=sum(part.neurons for part in parts),
        synapses=sum(part.synapses for part in parts),
        weights_stored=sum(math.prod(array.shape) for array in version.arrays.values()),
        bytes_in_memory=_bytes(version.arrays),
        layers=_shares(parts, lambda part: part.layer),
        kinds=_shares(parts, lambda part: part.kind),
        parts=tuple(_joined(parts)),
    )


def _bytes(arrays: Mapping[str, Any]) -> int:
    """The bytes of the arrays; memory that two of them share counts once."""
    storages = [(array.device, array.untyped_storage()) for array in arrays.values()]
    sizes = {(device, storage.data_ptr()): storage.nbytes() for device, storage in storages}
    return sum(sizes.values())


def _shares(parts: Iterable[Part], label: Callable[[Part], str]) -> dict[str, Share]:
    found: dict[str, Share] = {}
    for part in parts:
        known = found.get(label(part), Share(groups=0, neurons=0, synapses=0))
        found[label(part)] = Share(
            groups=known.groups + part.groups,
            neurons=known.neurons + part.neurons,
            synapses=known.synapses + part.synapses,
        )
    return found


def _joined(parts: Iterable[Part]) -> Iterable[Part]:
    """The groups of one kind in one layer as one part."""
    found: dict[tuple[str, str], list[Part]] = {}
    for part in parts:
        found.setdefault((part.layer, part.kind), []).append(part)
    for (layer, kind), same in found.items():
        counted = _shares(same, lambda part: "")[""]
        yield Part(layer=layer, kind=kind, **counted.model_dump())
