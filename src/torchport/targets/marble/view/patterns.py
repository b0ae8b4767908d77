"""The synapses of a whole group in a few numbers, from which the page computes those of any neuron.

In: a group. Out: for each input a reach, which says along each axis of the input from which positions the synapses of a
neuron come, given the neuron's own coordinates, and where the weight of each is. The synapses of a neuron are the
product of its rows along the axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torchport.targets.marble.core.version import Version
from torchport.targets.marble.groups import ALONE, Group, Kind
from torchport.targets.marble.works import settled

Axis = dict[str, Any]
"""`{"whole": size}` is every position, `{"same": along}` the one that the neuron has along an axis of the result, and
`{"along": axis, "table": rows}` a row of positions for each coordinate, in which -1 is beyond a margin."""
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Lookup:
    """Where a number is in an array: each coordinate of the neuron, and the number of the synapse, has a step."""

    array: str
    steps: list[int]
    each: int = 0


@dataclass(frozen=True)
class Reach:
    """The synapses from one input of a group."""

    input: int
    axes: list[Axis]
    weight: Lookup | None = None
    factor: float = 1.0
    present: Lookup | None = None
    """Flags of the weights that were not pruned."""


@dataclass(frozen=True)
class Pattern:
    """The synapses of a group's own work."""

    reaches: list[Reach] = field(default_factory=list)


@dataclass(frozen=True)
class _Asked:
    group: Group
    inputs: list[Shape]
    result: Shape
    options: Mapping[str, Any]
    arrays: Mapping[str, Shape]
    """The shapes of the group's arrays, by what they are for."""

    def lookup(self, purpose: str, steps: list[int], each: int = 0) -> Lookup | None:
        return Lookup(self.group.weights[purpose], steps, each) if purpose in self.arrays else None

    def broadcast(self, purpose: str) -> Lookup | None:
        """An array that is repeated along axes which it lacks, or which it has with size 1."""
        if purpose not in self.arrays:
            return None
        shape = self.arrays[purpose]
        steps = [0] * (len(self.result) - len(shape))
        steps += [0 if size == 1 else step for size, step in zip(shape, _steps(shape), strict=True)]
        return self.lookup(purpose, steps)


def pattern_of(version: Version, group: Group) -> Pattern | None:
    """The pattern of a group, or None if there is none for its work."""
    work = _WORKS.get((group.kind, group.work), _single if group.kind is Kind.FUNCTION else None)
    if not group.own_inputs or group.work == ALONE:
        return Pattern()
    return None if work is None or len(group.results) != 1 else work(_asked(version, group))


def biases_of(version: Version, group: Group) -> Lookup | float | None:
    """Where the biases of a group's neurons are, or the one that they share; None if they have none."""
    if group.kind is not Kind.WEIGHTED_SUM:
        return None
    ask = _asked(version, group)
    number = ask.options.get("bias")
    if group.work in ("dense", "convolution"):
        steps = [0] * len(ask.result)
        steps[1 if group.work == "convolution" else -1] = 1
        return ask.lookup("bias", steps)
    return ask.broadcast("bias") or (None if number is None else float(number))


def _asked(version: Version, group: Group) -> _Asked:
    sizes = {free.name: free.example for free in version.graph.free}
    return _Asked(
        group,
        [version.form(port).shape for port in group.own_inputs],
        group.results[0].shape,
        {name: settled(value, sizes) for name, value in group.options.items()},
        {purpose: tuple(array.shape) for purpose, array in version.arrays_of(group).items()},
    )


def _steps(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _whole(size: int) -> Axis:
    return {"whole": size}


def _same(size: int, along: int) -> Axis:
    return {"whole": 1} if size == 1 else {"same": along}


def _at_the_same_place(ask: _Asked, index: int) -> list[Axis]:
    shape = ask.inputs[index]
    first = len(ask.result) - len(shape)
    return [_same(size, first + axis) for axis, size in enumerate(shape)]


def _single(ask: _Asked) -> Pattern:
    return Pattern([Reach(0, _at_the_same_place(ask, 0))])


def _each_input(ask: _Asked) -> Pattern:
    return Pattern([Reach(index, _at_the_same_place(ask, index)) for index in range(len(ask.inputs))])


def _aligned(ask: _Asked) -> Pattern:
    reaches = [
        Reach(index, _at_the_same_place(ask, index), ask.broadcast(f"weight{index}"), float(factor))
        for index, factor in enumerate(ask.options["factors"])
    ]
    return Pattern(reaches)


def _dense(ask: _Asked) -> Pattern:
    *lines, size = ask.inputs[0]
    axes = [*(_same(length, axis) for axis, length in enumerate(lines)), _whole(size)]
    before = [0] * (len(ask.result) - 1)
    weight, present = (ask.lookup(purpose, [*before, size], 1) for purpose in ("weight", "present"))
    return Pattern([Reach(0, axes, weight, present=present)])


def _convolution(ask: _Asked) -> Pattern | None:
    how, kernel = ask.options, ask.arrays["weight"]
    if how["transposed"]:
        return None
    samples, channels, *sizes = ask.inputs[0]
    axes = [_same(samples, 0), _channels(channels, ask.result[1], how["groups"])]
    for axis, size in enumerate(sizes):
        step = (how["stride"][axis], how["padding"][axis], how["dilation"][axis])
        table = _window(size, ask.result[axis + 2], kernel[axis + 2], *step)
        axes.append({"along": axis + 2, "table": table})
    steps = [0, math.prod(kernel[1:]), *([0] * len(sizes))]
    weight, present = (ask.lookup(purpose, steps, 1) for purpose in ("weight", "present"))
    return Pattern([Reach(0, axes, weight, present=present)])


def _channels(channels: int, results: int, groups: int) -> Axis:
    if groups == 1:
        return _whole(channels)
    each, of_result = channels // groups, results // groups
    table = [[result // of_result * each + nth for nth in range(each)] for result in range(results)]
    return {"along": 1, "table": table}


def _window(
    size: int, results: int, kernel: int, stride: int, padding: int, dilation: int
) -> list[list[int]]:
    rows = [
        [result * stride - padding + nth * dilation for nth in range(kernel)] for result in range(results)
    ]
    return [[place if 0 <= place < size else -1 for place in row] for row in rows]


def _reduced(ask: _Asked) -> Pattern:
    shape = ask.inputs[0]
    dims = range(len(shape)) if ask.options["dims"] is None else ask.options["dims"]
    kept = [axis for axis in range(len(shape)) if axis not in dims]
    has_all_axes = len(ask.result) == len(shape)
    axes = [
        _whole(size) if axis in dims else _same(size, axis if has_all_axes else kept.index(axis))
        for axis, size in enumerate(shape)
    ]
    return Pattern([Reach(0, axes)])


_WORKS: dict[tuple[Kind, str], Callable[[_Asked], Pattern | None]] = {
    (Kind.WEIGHTED_SUM, "aligned"): _aligned,
    (Kind.WEIGHTED_SUM, "dense"): _dense,
    (Kind.WEIGHTED_SUM, "convolution"): _convolution,
    (Kind.PRODUCT, "product"): _each_input,
    (Kind.REDUCTION, "larger"): _each_input,
    (Kind.REDUCTION, "smaller"): _each_input,
    **{(Kind.REDUCTION, work): _reduced for work in ("sum", "mean", "max", "min", "any", "all")},
}
