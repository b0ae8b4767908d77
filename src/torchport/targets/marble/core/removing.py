"""Changing and removing single synapses, neurons and groups. Each function takes a version and gives another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble import sparse
from torchport.targets.marble.core.adding import added_rows, as_weights, tensor_of, with_rows
from torchport.targets.marble.core.unrolled import own_width, unrolled
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.evaluate import reads
from torchport.targets.marble.groups import Assembly, Group, Kind, Memory
from torchport.targets.marble.synapses import Synapses

SynapseId = tuple[int, int]
"""The target, and which of its synapses it is."""


def set_weights(version: Version, synapses: Sequence[SynapseId], weights: Any) -> tuple[Version, None]:
    """With other weights for single synapses."""
    synapses = _ids(synapses)
    given = tensor_of(weights, len(synapses))
    for name, indices in _by_group(version, synapses).items():
        version, group = _with_single_synapses(version, name, [synapses[index] for index in indices])
        rows, inputs = added_rows(version, group)
        changed = rows.weight.clone()
        changed[_found(group, rows, [synapses[index] for index in indices])] = as_weights(
            given[indices], group
        )
        version = with_rows(version, group, replace(rows, weight=changed), inputs)
    return version, None


def remove_synapses(version: Version, synapses: Sequence[SynapseId]) -> tuple[Version, None]:
    """Without single synapses."""
    synapses = _ids(synapses)
    for name, indices in _by_group(version, synapses).items():
        asked = [synapses[index] for index in indices]
        version, group = _with_single_synapses(version, name, asked)
        rows, inputs = added_rows(version, group)
        kept = torch.ones(len(rows.target), dtype=torch.bool)
        kept[_found(group, rows, asked)] = False
        left = sparse.Rows(rows.target[kept], rows.source[kept], rows.weight[kept], rows.number[kept])
        version = with_rows(version, group, left, inputs)
    return version, None


def _ids(given: Sequence[Any]) -> list[SynapseId]:
    try:
        return [(int(target), int(number)) for target, number in given]
    except (TypeError, ValueError) as error:
        raise NeuronError("TP0904", "the id of a synapse is its target and its number there") from error


def _by_group(version: Version, synapses: Sequence[SynapseId]) -> dict[str, list[int]]:
    if len(set(synapses)) < len(synapses):
        raise NeuronError("TP0904", "a synapse is named twice")
    found: dict[str, list[int]] = {}
    for index, (target, _) in enumerate(synapses):
        group = version.place(target).group
        if group.kind is not Kind.WEIGHTED_SUM:
            raise NeuronError(
                "TP0904",
                f"the synapses of neuron {target} cannot be changed one by one: it is a {group.kind} ({group.work})",
                fix="Only weighted sums can do with other synapses. Remove the neuron, or change one before it.",
            )
        found.setdefault(group.name, []).append(index)
    return found


def _with_single_synapses(version: Version, name: str, asked: Sequence[SynapseId]) -> tuple[Version, Group]:
    """The group; if the synapses asked for are of its own work, with each synapse on its own."""
    group = version.groups[name]
    width = own_width(version, group)
    return unrolled(version, group) if any(number < width for _, number in asked) else (version, group)


def _found(group: Group, rows: sparse.Rows, asked: Sequence[SynapseId]) -> Tensor:
    """The rows of the synapses asked for."""
    known = {key: row for row, key in enumerate(zip(rows.target.tolist(), rows.number.tolist(), strict=True))}
    found = []
    for target, number in asked:
        key = (target - group.first, number)
        if key not in known:
            raise NeuronError("TP0901", f"the neuron {target} has no synapse {number}")
        found.append(known[key])
    return torch.tensor(found, dtype=torch.int64)


def remove_neurons(version: Version, neurons: Sequence[int], cascade: bool) -> tuple[Version, None]:
    """Without neurons. What needs them goes, too, if it cascades, and else must have gone before."""
    waiting, gone = list(dict.fromkeys(neurons)), set(neurons)
    while waiting:
        neuron = waiting.pop()
        group = version.place(neuron).group
        if group.kind is Kind.INPUT or version.is_output(neuron):
            what = "an input" if group.kind is Kind.INPUT else "an output"
            raise NeuronError("TP0902", f"the neuron {neuron} is {what} of the graph", fix="Remove others.")
        if version.is_remembered(neuron):
            raise NeuronError(
                "TP0902", f"a memory keeps the value of the neuron {neuron}", fix="Remove the memory first."
            )
        leaving = version.out_of(neuron)
        version, more = _without_leaving(version, neuron, leaving, gone, cascade)
        waiting += more
        gone.update(more)
        version = _without(version, neuron)
    return version, None


def _without_leaving(
    version: Version, neuron: int, leaving: Synapses, gone: set[int], cascade: bool
) -> tuple[Version, list[int]]:
    """Without the synapses that leave a neuron, and the functions that must go with it."""
    sums: list[SynapseId] = []
    functions: list[int] = []
    for target, number in zip(leaving.target.tolist(), leaving.number.tolist(), strict=True):
        if target in gone:
            continue
        kind = version.place(target).group.kind
        if not cascade or kind not in (Kind.WEIGHTED_SUM, Kind.FUNCTION):
            raise NeuronError(
                "TP0902",
                f"the neuron {target} ({version.place(target).group.name}, a {kind}) needs the neuron {neuron}",
                fix="Remove that neuron or its synapse first"
                + (", or remove with cascade=True." if kind in (Kind.WEIGHTED_SUM, Kind.FUNCTION) else "."),
            )
        (sums.append((target, number)) if kind is Kind.WEIGHTED_SUM else functions.append(target))
    if sums:
        version, _ = remove_synapses(version, sums)
    return version, functions


def _without(version: Version, neuron: int) -> Version:
    group = version.place(neuron).group
    version = _without_its_own(version, neuron)
    group = version.groups[group.name]
    changed = replace(group, removed=group.removed | {neuron - group.first})
    step = version.step_of[group.name]
    if isinstance(step, Memory):
        raise NeuronError(
            "TP0904", f"the neuron {neuron} is of a memory, which goes as a whole", fix="Remove the group."
        )
    return version.with_group(changed)


def _without_its_own(version: Version, neuron: int) -> Version:
    """Without the synapses into a weighted sum."""
    place = version.place(neuron)
    if place.group.kind is not Kind.WEIGHTED_SUM:
        return version
    version, group = unrolled(version, place.group)
    rows, inputs = added_rows(version, group)
    kept = rows.target != place.element
    left = sparse.Rows(rows.target[kept], rows.source[kept], rows.weight[kept], rows.number[kept])
    return with_rows(version, group, left, inputs)


def remove_group(version: Version, name: str) -> tuple[Version, None]:
    """Without a step: the group with all that was made with it."""
    group = version.group(name)
    step = version.step_of.get(name)
    if step is None:
        raise NeuronError("TP0902", f"the group {name} is an input of the graph", fix="Remove others.")
    readers = [other.name for other in version.graph.steps if other is not step and _reads(other, step.name)]
    if any(port.group == step.name for port in version.graph.outputs):
        readers.append("an output of the graph")
    readers += [memory.name for memory in version.graph.memories() if memory.source.group == step.name]
    if readers:
        raise NeuronError(
            "TP0902", f"{', '.join(readers[:5])} need{'s' * (len(readers) == 1)} the group {group.name}"
        )
    return version.with_steps(tuple(other for other in version.graph.steps if other is not step)), None


def _reads(step: Assembly | Any, name: str) -> bool:
    return any(port.group == name for port in reads(step))
