"""The synapses of a whole group in a few numbers, from which the page computes those of any neuron.

In: a group. Out: how far its synapses reach into each input, as `fans` says it, written as data for JSON, and where the
weight of each synapse and the bias of each neuron is in the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchport.errors import ConvertError
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.fans import Request, reaches, request
from torchport.targets.marble.fans.lists import is_listed
from torchport.targets.marble.fans.reach import Axis
from torchport.targets.marble.fans.reach import Reach as Fans
from torchport.targets.marble.groups import ALONE, Group, Kind
from torchport.targets.marble.sparse import own_part

MOST_IN_A_TABLE = 100_000
"""Positions in the table of one axis."""


@dataclass(frozen=True)
class Lookup:
    """Where a number is in an array: each coordinate of the neuron, and the number of the synapse, has a step."""

    array: str
    steps: list[int]
    each: int = 0


@dataclass(frozen=True)
class Reach:
    """The synapses from one input of a group.

    An axis is `{"whole": size}` for every position, `{"same": along}` for the one that the neuron has along an axis of
    the result, or a table with a row of positions for each coordinate along an axis; with one row if `along` is None.
    """

    input: int
    axes: list[dict[str, Any]]
    weight: Lookup | None = None
    factor: float = 1.0
    present: Lookup | None = None
    """Flags of the weights that were not pruned."""


@dataclass(frozen=True)
class Pattern:
    """The synapses of a group's own work, for each of its results."""

    results: list[list[Reach]]


def pattern_of(version: Version, group: Group) -> Pattern | None:
    """The pattern of a group, or None if its synapses have none that is short."""
    ask = _asked(version, group)
    if group.work == ALONE:
        return Pattern([[]])
    if is_listed(ask) or ask.options.get("transposed"):
        return None
    try:
        found = [reaches(ask, result) for result in ask.results]
    except ConvertError:
        return None
    if any(axis.table.numel() > MOST_IN_A_TABLE for some in found for reach in some for axis in reach.axes):
        return None
    weighing = _weighing(ask) if _is_sum(ask) else {}
    return Pattern([[_reach(ask, one, weighing) for one in some] for some in found])


def biases_of(version: Version, group: Group) -> Lookup | float | None:
    """Where the biases of a group's neurons are, or the one that they share; None if they have none."""
    ask = _asked(version, group)
    if not _is_sum(ask):
        return None
    if group.work == "aligned":
        number = ask.options.get("bias")
        return _broadcast(ask, "bias") or (None if number is None else float(number))
    if group.work not in ("dense", "convolution"):
        return _lookup(ask, "bias", _steps(ask.results[0].shape))
    steps = [0] * len(ask.results[0].shape)
    steps[_channel_axis(ask)] = 1
    return _lookup(ask, "bias", steps)


def _is_sum(ask: Request) -> bool:
    return ask.group.kind is Kind.WEIGHTED_SUM


def _asked(version: Version, group: Group) -> Request:
    own, known = own_part(group), version.arrivals
    forms = known.forms(group.name)[: len(own.inputs)]
    return request(own, forms, own.results, version.arrays, known.sizes)


def _reach(ask: Request, reach: Fans, weighing: Mapping[int, tuple[Lookup | None, float]]) -> Reach:
    weight, factor = weighing.get(reach.input, (None, 1.0))
    axes = [
        _axis(axis, size, _is_sum(ask) and not weighing)
        for axis, size in zip(reach.axes, reach.shape, strict=True)
    ]
    has_flags = weight is not None and "present" in ask.arrays
    flags = Lookup(ask.group.weights["present"], weight.steps, weight.each) if weight and has_flags else None
    return Reach(reach.input, axes, weight, factor, flags)


def _axis(axis: Axis, size: int, has_factors: bool) -> dict[str, Any]:
    positions = torch.arange(size)
    factor = axis.factor if has_factors else None
    if factor is None and axis.along is None and torch.equal(axis.table, positions[None]):
        return {"whole": size}
    if factor is None and axis.along is not None and torch.equal(axis.table, positions[:, None]):
        return {"same": axis.along}
    found = {"along": axis.along, "table": axis.table.tolist()}
    return found if factor is None else {**found, "factors": factor.double().tolist()}


def _weighing(ask: Request) -> dict[int, tuple[Lookup | None, float]]:
    """For each input the array with its weights, and a number that they are multiplied by."""
    if ask.group.work == "aligned":
        return {
            index: (_broadcast(ask, f"weight{index}"), float(factor))
            for index, factor in enumerate(ask.options["factors"])
        }
    if "weight" not in ask.arrays:
        return {}
    steps = [0] * len(ask.results[0].shape)
    steps[_channel_axis(ask)] = math.prod(ask.arrays["weight"].shape[1:])
    return {0: (_lookup(ask, "weight", steps, 1), 1.0)}


def _channel_axis(ask: Request) -> int:
    """The axis of the result along which each neuron has weights and a bias of its own."""
    return 1 if ask.group.work == "convolution" else -1


def _lookup(ask: Request, purpose: str, steps: list[int], each: int = 0) -> Lookup | None:
    return Lookup(ask.group.weights[purpose], steps, each) if purpose in ask.arrays else None


def _broadcast(ask: Request, purpose: str) -> Lookup | None:
    """An array that is repeated along axes which it lacks, or which it has with size 1."""
    if purpose not in ask.arrays:
        return None
    shape = ask.arrays[purpose].shape
    steps = [0] * (len(ask.results[0].shape) - len(shape))
    steps += [0 if size == 1 else step for size, step in zip(shape, _steps(shape), strict=True)]
    return _lookup(ask, purpose, steps)


def _steps(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
