"""The weights of synapses, for each kind of weighted sum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from torchport.targets.marble.fans.request import Request
from torchport.targets.marble.groups import Form


@dataclass(frozen=True)
class Weighing:
    """The weights of some neurons' synapses."""

    weight: Tensor
    present: Tensor | None = None
    """False for a synapse that was removed."""
    bias: Tensor | None = None


@dataclass(frozen=True)
class Asked:
    """The neurons whose weights are asked for, by their coordinates in the result."""

    ask: Request
    result: Form
    coordinates: Sequence[Tensor]
    neurons: Tensor

    def among(self, values: Tensor) -> Tensor:
        """Of values that there are for each neuron, or that are repeated for some, those of the neurons."""
        first = len(self.result.shape) - values.ndim
        place = [
            self.coordinates[first + axis] if size > 1 else torch.zeros_like(self.neurons)
            for axis, size in enumerate(values.shape)
        ]
        return values[tuple(place)] if place else values.expand(len(self.neurons))


def of_aligned(asked: Asked) -> Weighing:
    """A number or a weight for each input."""
    arrays, options = asked.ask.arrays, asked.ask.options
    columns = []
    for index, factor in enumerate(options["factors"]):
        weight = arrays.get(f"weight{index}")
        columns.append(asked.among(_number(factor) if weight is None else weight * factor))
    bias = arrays.get("bias", options.get("bias"))
    if bias is not None:
        bias = asked.among(bias if isinstance(bias, Tensor) else _number(bias))
    return Weighing(torch.cat([column[:, None] for column in columns], 1), bias=bias)


def _number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def of_dense(asked: Asked) -> Weighing:
    return _of_rows(asked, asked.coordinates[-1], lambda weight: weight)


def of_convolution(asked: Asked) -> Weighing:
    """The kernel of the neuron's channel, which all its neurons share."""
    how = asked.ask.options
    return _of_rows(
        asked, asked.coordinates[1], lambda weight: kernels(weight, how["transposed"], how["groups"])
    )


def kernels(weight: Tensor, is_transposed: bool, groups: int) -> Tensor:
    """The weights of a convolution as `[channels of the result, synapses]`."""
    if not is_transposed:
        return weight.flatten(1)
    channels, each, *kernel = weight.shape
    parts = weight.reshape(groups, channels // groups, each, *kernel).transpose(1, 2)
    return parts.reshape(groups * each, -1)


def _of_rows(asked: Asked, chosen: Tensor, rows: Callable[[Tensor], Tensor]) -> Weighing:
    arrays = asked.ask.arrays
    present, bias = arrays.get("present"), arrays.get("bias")
    return Weighing(
        rows(arrays["weight"])[chosen],
        None if present is None else rows(present)[chosen],
        None if bias is None else bias[chosen],
    )


WEIGHTS: dict[str, Callable[[Asked], Weighing]] = {
    "aligned": of_aligned,
    "dense": of_dense,
    "convolution": of_convolution,
}
