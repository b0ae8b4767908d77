"""Growth that changes no output: a neuron that is split in two, new neurons whose synapses out have the weight 0."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble.composer import Composer
from torchport.targets.marble.core.adding import (
    NeuronGroup,
    added_synapses,
    alone,
    appended,
    handle,
    must_be_new,
)
from torchport.targets.marble.core.removing import set_weights
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.groups import ALONE, Form, Group, Kind
from torchport.targets.marble.synapses import Synapses


def split(version: Version, neuron: int) -> tuple[Version, NeuronGroup]:
    """A second neuron beside one, with the same synapses in; each of the two has half of the weights out."""
    group = _weighted(version, neuron)
    end, leaving = _end(version, neuron)
    arriving = version.into(neuron)
    name = f"{group.name}.split{neuron}.{version.number}"
    functions = _functions(version, neuron, end)
    bias = version.bias(neuron)
    version, made = _like(version, name, group, functions, 1, None if bias is None else bias.reshape(1))
    halves = leaving.weight / 2
    ids = list(zip(leaving.target.tolist(), leaving.number.tolist(), strict=True))
    version, _ = set_weights(version, ids, halves)
    version = added_synapses(version, arriving.source, _all(made.takes.start, arriving), arriving.weight)
    return added_synapses(version, _all(made.gives.start, leaving), leaving.target, halves), made


def grow(version: Version, group: str, count: int, seed: int) -> tuple[Version, NeuronGroup]:
    """More neurons beside those of a dense layer, for each row of it: random synapses in, and out of weight 0."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise NeuronError("TP0904", f"a group grows by at least one neuron, not {count!r}")
    wide = version.group(group)
    rows = _rows(version, wide)
    name = f"{group}.grown{version.number}"
    end, _ = _end(version, rows[0])
    functions = _functions(version, rows[0], end)
    version, made = _like(version, name, wide, functions, len(rows) * count, None)
    chance = torch.Generator().manual_seed(seed)
    for index, first in enumerate(rows):
        arriving, (_, leaving) = version.into(first), _end(version, first)
        takes = torch.arange(count) + made.takes.start + index * count
        gives = torch.arange(count) + made.gives.start + index * count
        width = 1 / math.sqrt(max(1, len(arriving)))
        weights = (torch.rand(count * len(arriving), generator=chance) * 2 - 1) * width
        version = added_synapses(
            version, arriving.source.repeat(count), takes.repeat_interleave(len(arriving)), weights
        )
        nothing = torch.zeros(count * len(leaving))
        version = added_synapses(
            version, gives.repeat_interleave(len(leaving)), leaving.target.repeat(count), nothing
        )
    return version, made


def _rows(version: Version, group: Group) -> list[int]:
    """The first neuron of each row: the neurons of a row have the same sources."""
    if group.kind is Kind.WEIGHTED_SUM and group.work == "dense":
        width = group.results[0].shape[-1]
        return list(range(group.first, group.ids.stop, width))
    if group.kind is Kind.WEIGHTED_SUM and group.work == ALONE:
        return [group.first]
    raise NeuronError(
        "TP0904",
        f"the group {group.name} cannot grow: it is a {group.kind} ({group.work})",
        fix="Grow the neurons of a dense layer, or add a group and its synapses.",
    )


def _weighted(version: Version, neuron: int) -> Group:
    group = version.place(neuron).group
    if group.kind is not Kind.WEIGHTED_SUM:
        raise NeuronError(
            "TP0904",
            f"the neuron {neuron} cannot be split: it is a {group.kind} ({group.work})",
            fix="Split a weighted sum.",
        )
    return group


def _end(version: Version, neuron: int) -> tuple[int, Synapses]:
    """The neuron whose value others add up, which is this one or the function after it, and the synapses out of it."""
    leaving = version.out_of(neuron)
    kinds = {version.place(target).group.kind for target in leaving.target.tolist()}
    if kinds == {Kind.FUNCTION} and len(leaving) == 1 and not version.is_output(neuron):
        return _end(version, int(leaving.target[0]))
    if kinds - {Kind.WEIGHTED_SUM} or version.is_output(neuron):
        others = (
            ", ".join(sorted(kind.value for kind in kinds - {Kind.WEIGHTED_SUM})) or "an output of the graph"
        )
        raise NeuronError(
            "TP0904",
            f"neurons beside {neuron} would change outputs: its value goes to {others}, not only to weighted sums",
        )
    return neuron, leaving


def _functions(version: Version, neuron: int, end: int) -> list[Group]:
    """The functions between a neuron and the one whose value others add up, in their order."""
    found: list[Group] = []
    while neuron != end:
        neuron = int(version.out_of(neuron).target[0])
        found.append(version.place(neuron).group)
    return found


def _like(
    version: Version, name: str, group: Group, functions: list[Group], size: int, bias: Tensor | None
) -> tuple[Version, NeuronGroup]:
    """New neurons without synapses, with the same function after them."""
    must_be_new(version, name)
    composer = Composer(name, group.layer, {}, version.next_id)
    last = alone(composer, Form((size,), group.results[0].dtype), bias)
    for function in functions:
        last = composer.add(Kind.FUNCTION, function.work, [last], dict(function.options))
    return appended(version, composer, last), handle(composer)


def _all(neuron: int, links: Synapses) -> Tensor:
    return torch.full((len(links),), neuron)
