"""What the page knows of a graph: layers, groups with the wiring of their synapses, and arrays, as data for JSON.

In: a core, and the room that there is. What does not fit is left out, and a note says so.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from torchport.pages import as_script
from torchport.targets.marble import sparse
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.core.views import Neurons
from torchport.targets.marble.groups import Group
from torchport.targets.marble.view import arrays
from torchport.targets.marble.view.patterns import Lookup, Pattern, Reach
from torchport.targets.marble.view.wiring import Wiring, wiring_of

_NOTES_OF_ARRAYS = 200


def graph_of(core: Core, most_neurons: int, room: int) -> dict[str, Any]:
    """Everything that the page shows."""
    version = core.version
    groups = [group for group in version.groups.values() if group.neurons]
    layers = _Layers()
    wired = {group.name: wiring_of(version, group) for group in groups}
    used = sorted({name for group in groups for name in _own_arrays(group)})
    numbers = {name: number for number, name in enumerate(used)}
    places = {group.name: number for number, group in enumerate(groups)}
    shown_groups = [_group(version, group, wired[group.name], layers, numbers, places) for group in groups]
    room_left = room - _size(shown_groups, used)
    shown_arrays = arrays.shown({name: version.arrays[name] for name in used}, max(0, room_left))
    synapses = [wired[group.name].count for group in groups]
    return {
        "model": version.graph.name,
        "version": version.number,
        "neurons": version.graph.neurons,
        "synapses": sum(count or 0 for count in synapses),
        "allCounted": None not in synapses,
        "mostNeurons": most_neurons,
        "layers": layers.found,
        "groups": shown_groups,
        "arrays": [one.data for one in shown_arrays],
        "notes": _notes(shown_arrays, groups, wired),
    }


def _own_arrays(group: Group) -> list[str]:
    return [name for purpose, name in group.weights.items() if purpose not in sparse.PURPOSES]


def _size(groups: list[dict[str, Any]], names: list[str]) -> int:
    """The letters that the page has without the values of arrays; names are counted as they are at worst."""
    return len(as_script(groups)) + sum(400 + 12 * len(name) for name in names)


@dataclass
class _Layers:
    """The layers in the order of computation, each after those around it."""

    found: list[dict[str, Any]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int | None:
        if not name:
            return None
        if name not in self.numbers:
            parent = self.number(name.rpartition(".")[0])
            self.numbers[name] = len(self.found)
            self.found.append({"name": name, "parent": parent})
        return self.numbers[name]


def _group(
    version: Version,
    group: Group,
    wired: Wiring,
    layers: _Layers,
    numbers: dict[str, int],
    places: dict[str, int],
) -> dict[str, Any]:
    neuron = Neurons(version)[next(id for id in group.ids if id - group.first not in group.removed)]
    return {
        "name": group.name,
        "kind": group.kind.value,
        "work": group.work,
        "formula": neuron.formula,
        "activation": neuron.activation,
        "tier": neuron.tier,
        "layer": layers.number(group.layer),
        "first": group.first,
        "shapes": [list(form.shape) for form in group.results],
        "dtype": group.results[0].dtype,
        "removed": sorted(group.removed),
        "count": group.neurons,
        "synapses": wired.count,
        "weights": {purpose: numbers[name] for purpose, name in group.weights.items() if name in numbers},
        "inputs": wired.inputs,
        "sources": [places[name] for name in wired.sources if name in places],
        "pattern": None if wired.pattern is None else _pattern(wired.pattern, numbers),
        "bias": _lookup(wired.bias, numbers) if isinstance(wired.bias, Lookup) else wired.bias,
        "listed": wired.listed,
    }


def _pattern(pattern: Pattern, numbers: dict[str, int]) -> dict[str, Any]:
    return {
        "results": [[_reach(reach, numbers) for reach in reaches] for reaches in pattern.results],
    }


def _reach(reach: Reach, numbers: dict[str, int]) -> dict[str, Any]:
    return {
        "input": reach.input,
        "axes": reach.axes,
        "factor": reach.factor,
        "weight": _lookup(reach.weight, numbers),
        "present": _lookup(reach.present, numbers),
    }


def _lookup(lookup: Lookup | None, numbers: dict[str, int]) -> dict[str, Any] | None:
    return None if lookup is None else {**asdict(lookup), "array": numbers[lookup.array]}


def _notes(shown_arrays: list[arrays.Shown], groups: list[Group], wired: dict[str, Wiring]) -> list[str]:
    """What is not exact, or not there."""
    found = [f"{one.name}: {one.loss}" for one in shown_arrays if one.loss is not None]
    rest = len(found) - _NOTES_OF_ARRAYS
    found = [*found[:_NOTES_OF_ARRAYS], f"and {rest} more arrays"] if rest > 0 else found
    unknown = [group.name for group in groups if not wired[group.name].is_shown]
    return [*found, *(f"{name}: its synapses are not in the page" for name in unknown)]
