"""Neurons and synapses as objects to look at. They are made when asked for; nothing of them is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torchport.errors import NeuronError
from torchport.targets.marble import sparse, synapses
from torchport.targets.marble.core.unrolled import own_fan
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.counts import Counts
from torchport.targets.marble.groups import ALONE, Group, Kind


@dataclass(frozen=True)
class Neuron:
    """One neuron, with the fields that MARBLE gives it."""

    id: int
    neuron_type: str
    formula: str
    layer: str
    group: str
    position: tuple[int, ...]
    """Its coordinates in the values of its group."""
    bias: float | None
    activation: str | None
    """The function that it is, if it is one."""
    is_activation: bool
    tier: str
    """`vram` if its group's arrays are on an accelerator, and else `ram`."""

    @property
    def params(self) -> dict[str, Any]:
        """What MARBLE keeps in the neuron's metadata."""
        return {
            "activation": self.activation,
            "activation_flag": self.is_activation,
            "bias": self.bias,
            "layer": self.layer,
            "group": self.group,
            "position": list(self.position),
        }


@dataclass(frozen=True)
class Synapse:
    """One synapse, with the fields that MARBLE gives it."""

    source: int
    target: int
    number: int
    weight: float
    synapse_type: str = "standard"
    potential: float = 1.0

    @property
    def id(self) -> tuple[int, int]:
        """The target, and which of its synapses it is: stays the same when others come or go."""
        return self.target, self.number


@dataclass(frozen=True)
class Neurons:
    """The neurons of one version of a graph, by their ids."""

    version: Version

    def __len__(self) -> int:
        return self.version.graph.neurons

    def __contains__(self, neuron: object) -> bool:
        try:
            return isinstance(neuron, int) and self.version.place(neuron) is not None
        except NeuronError:
            return False

    def __iter__(self) -> Iterator[int]:
        for group in sorted(self.version.groups.values(), key=lambda group: group.first):
            yield from (id for id in group.ids if id - group.first not in group.removed)

    def __getitem__(self, neuron: int) -> Neuron:
        place = self.version.place(neuron)
        group = place.group
        activation = activation_of(group)
        return Neuron(
            id=neuron,
            neuron_type=group.kind.value,
            formula=formula(group),
            layer=group.layer,
            group=group.name,
            position=_coordinates(place.element, group.results[place.result].shape),
            bias=_bias(self.version, neuron),
            activation=activation,
            is_activation=activation is not None,
            tier=tier_of(self.version, group),
        )

    def of_layer(self, layer: str) -> list[range]:
        """The ids of the neurons of a layer and of those inside it, a range for each group."""
        found = [
            group.ids
            for group in self.version.groups.values()
            if len(group.ids) and (group.layer == layer or group.layer.startswith(f"{layer}."))
        ]
        if not found:
            raise NeuronError("TP0901", f"no layer {layer!r} has neurons")
        return found


@dataclass(frozen=True)
class Synapses:
    """The synapses of one version of a graph."""

    version: Version

    def __len__(self) -> int:
        """How many there are; each is counted, also if many share a weight. None is made for that."""
        return sum(count_in(self.version, group) for group in self.version.groups.values())

    def of(self, neuron: int) -> list[Synapse]:
        """Those that arrive at a neuron."""
        return _each(self.version, self.version.into(neuron))

    def out_of(self, neuron: int) -> list[Synapse]:
        """Those that leave a neuron."""
        return _each(self.version, self.version.out_of(neuron))

    def __getitem__(self, synapse: tuple[int, int]) -> Synapse:
        target, number = synapse
        for one in self.of(target):
            if one.number == number:
                return one
        raise NeuronError("TP0901", f"the neuron {target} has no synapse {number}")


def _each(version: Version, found: synapses.Synapses) -> list[Synapse]:
    fields = (found.source, found.target, found.number, found.weight)
    return [
        Synapse(source, target, number, float(weight))
        for source, target, number, weight in zip(*(field.tolist() for field in fields), strict=True)
    ]


def count_in(version: Version, group: Group) -> int:
    """How many synapses arrive at the neurons of a group, those from bias neurons included."""
    arrays = version.arrays_of(group)
    added = len(arrays[sparse.WEIGHT]) if sparse.WEIGHT in arrays else 0
    if group.work == ALONE:
        return added + (group.neurons if "bias" in arrays else 0)
    if not group.neurons:
        return added
    gone = sum(own_fan(version, group, range(one, one + 1)).count for one in group.removed)
    return added + Counts(version.graph, version.cpu_arrays, version.arrivals).of(group.name) - gone


def formula(group: Group) -> str:
    """What a neuron of the group makes of what arrives, in a few signs."""
    name = group.work.removeprefix("aten.").removesuffix(".default")
    return {
        Kind.INPUT: "x",
        Kind.CONSTANT: "c",
        Kind.MEMORY: "value of the step before",
        Kind.WEIGHTED_SUM: "Σ w·x + b" if "bias" in group.weights or "bias" in group.options else "Σ w·x",
        Kind.PRODUCT: "Π x",
    }.get(group.kind, f"{name}(x)")


def activation_of(group: Group) -> str | None:
    """The name of the function that the neurons of a group are, if they are one."""
    if group.kind is not Kind.FUNCTION:
        return None
    return group.work.removeprefix("activation:").removeprefix("aten.").split(".")[0]


def _coordinates(element: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    found: list[int] = []
    for size in reversed(shape):
        found.insert(0, element % size)
        element //= size
    return tuple(found)


def _bias(version: Version, neuron: int) -> float | None:
    bias = version.bias(neuron)
    return None if bias is None else float(bias)


def tier_of(version: Version, group: Group) -> str:
    """`vram` if arrays of the group are on an accelerator, and else `ram`."""
    devices = {array.device.type for array in version.arrays_of(group).values()}
    return "vram" if devices - {"cpu"} else "ram"
