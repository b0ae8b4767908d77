"""How far the synapses of a group reach into one of its inputs, axis by axis.

Along each axis of an input a table says, for every position of the result, from which positions synapses come. The
synapses of a neuron are the product of its rows in these tables. So they can be listed for some neurons, counted
without being listed, and followed the other way, from a place to the neurons that it reaches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ABSENT = -1
"""In a table: no synapse, as beyond a margin."""


@dataclass(frozen=True)
class Axis:
    """The positions along one axis of an input that synapses come from."""

    table: Tensor
    """`[positions of the result, synapses]`, or one row if it is the same for all of the result."""
    along: int | None = None
    """The axis of the result that chooses the row; None if there is one row."""
    factor: Tensor | None = None
    """Of the same shape as the table: what the weight of a synapse is multiplied by."""

    @property
    def count(self) -> int:
        """The synapses in the whole table."""
        return int((self.table >= 0).sum())


def whole(size: int) -> Axis:
    """Every position, for all of the result."""
    return Axis(torch.arange(size)[None])


def same(size: int, along: int) -> Axis:
    """The position that the neuron itself has along an axis of the result; an axis of size 1 is repeated."""
    if size == 1:
        return Axis(torch.zeros(1, 1, dtype=torch.int64))
    return Axis(torch.arange(size)[:, None], along)


@dataclass(frozen=True)
class Rows:
    """The synapses of some neurons from one input: a row for each neuron."""

    source: Tensor
    present: Tensor | None
    factor: Tensor | None


@dataclass(frozen=True)
class Reach:
    """The synapses from one input, by its number. Its places begin at `start` if the inputs are laid end to end."""

    input: int
    start: int
    shape: tuple[int, ...]
    axes: tuple[Axis, ...]

    def __post_init__(self) -> None:
        chosen = [axis.along for axis in self.axes if axis.along is not None]
        assert len(chosen) == len(set(chosen)), "two axes of an input follow the same axis of the result"

    @property
    def strides(self) -> list[int]:
        return [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]

    @property
    def width(self) -> int:
        """The synapses of each neuron, those beyond a margin included."""
        return math.prod(axis.table.shape[1] for axis in self.axes)

    def rows(self, coordinates: Sequence[Tensor], neurons: int) -> Rows:
        """The synapses of the neurons at some coordinates of the result."""
        source = torch.full((neurons, 1), self.start)
        present: Tensor | None = None
        factor: Tensor | None = None
        for axis, stride in zip(self.axes, self.strides, strict=True):
            position = _chosen(axis.table, axis, coordinates, neurons)
            before_width = source.shape[1]
            there = position >= 0 if int(axis.table.min() if axis.table.numel() else 0) < 0 else None
            present = _crossed(present, there, before_width, position.shape[1])
            source = (source[:, :, None] + (position * stride)[:, None]).flatten(1)
            if axis.factor is not None:
                own = _chosen(axis.factor, axis, coordinates, neurons)
                before = own.new_ones(1, before_width) if factor is None else factor
                factor = (before[:, :, None] * own[:, None]).flatten(1)
            elif factor is not None:
                factor = factor.repeat_interleave(position.shape[1], 1)
        return Rows(source if present is None else source.where(present, self.start), present, factor)

    def count(self, result: Sequence[int]) -> int:
        """The synapses of all neurons of a result."""
        return math.prod(axis.count for axis in self.axes) * self._repeats(result)

    def departures(self, result: Sequence[int]) -> Tensor:
        """How many synapses leave each place of the input, in the shape of the input."""
        total = torch.tensor(self._repeats(result))
        for axis, size in zip(self.axes, self.shape, strict=True):
            there = axis.table[axis.table >= 0]
            total = total[..., None] * torch.bincount(there, minlength=size)
        return total

    def targets(self, place: int, result: Sequence[int]) -> Tensor:
        """The neurons of the result that have a synapse from a place of this input, counted from 0."""
        chosen = [torch.arange(size) for size in result]
        for axis, stride, size in zip(self.axes, self.strides, self.shape, strict=True):
            has = (axis.table == place // stride % size).any(1).nonzero()[:, 0]
            if axis.along is not None:
                chosen[axis.along] = has
            elif not len(has):
                return has
        found = torch.zeros(1, dtype=torch.int64)
        for size, positions in zip(result, chosen, strict=True):
            found = (found[:, None] * size + positions).flatten()
        return found

    def _repeats(self, result: Sequence[int]) -> int:
        """How many neurons there are for each row of the tables."""
        chosen = {axis.along for axis in self.axes}
        return math.prod(size for axis, size in enumerate(result) if axis not in chosen)


def _chosen(table: Tensor, axis: Axis, coordinates: Sequence[Tensor], neurons: int) -> Tensor:
    return table.expand(neurons, -1) if axis.along is None else table.index_select(0, coordinates[axis.along])


def _crossed(before: Tensor | None, there: Tensor | None, left: int, right: int) -> Tensor | None:
    """Which synapses are there, if each before is crossed with each along one more axis."""
    if there is None:
        return None if before is None else before.repeat_interleave(right, 1)
    if before is None:
        return there.repeat(1, left)
    return (before[:, :, None] & there[:, None]).flatten(1)
