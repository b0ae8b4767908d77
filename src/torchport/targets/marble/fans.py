"""The synapses that arrive at neurons: for some neurons of a group, from where each message comes and with what weight.

In: a group, the forms of what arrives, its arrays, and a range of its neurons. Out: a `Fan`. The sources are places in the
inputs of the group, laid end to end; whose neurons they are is known by the wiring.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from torchport.targets.marble.groups import Form, Group, Kind


@dataclass(frozen=True)
class Fan:
    """The synapses into some neurons: a row for each neuron, of which each has equally many."""

    source: Tensor
    """`[neurons, synapses]`: the place that each comes from."""
    weight: Tensor | None = None
    """Of the same shape; None if no synapse has a weight."""
    present: Tensor | None = None
    """Of the same shape; None if all are there. At a margin some are not."""
    bias: Tensor | None = None
    """`[neurons]`: the weight of the synapse from the bias neuron, whose value is 1."""

    @property
    def count(self) -> int:
        number = self.source.numel() if self.present is None else int(self.present.sum())
        return number + (0 if self.bias is None else self.bias.numel())


@dataclass(frozen=True)
class Request:
    """Which neurons of a group are asked for."""

    group: Group
    inputs: Sequence[Form]
    arrays: Mapping[str, Tensor]
    """By what they are for."""
    options: Mapping[str, Any]
    neurons: range
    """Of the group's first result, counted from 0."""

    @property
    def result(self) -> Form:
        return self.group.results[0]

    def among(self, values: Tensor) -> Tensor:
        """Of values that there are for each neuron, or that can be repeated for each, those of the neurons."""
        shape = (
            (*self.result.shape, *values.shape[self.rank :]) if values.ndim > self.rank else self.result.shape
        )
        return values.expand(shape).reshape(self.result.size, *shape[self.rank :])[
            self.neurons.start : self.neurons.stop
        ]

    @property
    def rank(self) -> int:
        return len(self.result.shape)

    @property
    def starts(self) -> list[int]:
        """Where each input begins, if they are laid end to end."""
        found, total = [], 0
        for form in self.inputs:
            found.append(total)
            total += form.size
        return found


def _places(form: Form, start: int = 0) -> Tensor:
    return torch.arange(start, start + form.size).reshape(form.shape)


def _aligned(ask: Request) -> Fan:
    """One synapse from each input, from the neuron at the same place."""
    along = zip(ask.inputs, ask.starts, strict=True)
    source = torch.stack([ask.among(_places(form, start)) for form, start in along], -1)
    if ask.group.kind is not Kind.WEIGHTED_SUM:
        return Fan(source)
    factors = ask.options["factors"]
    columns = [
        ask.among(ask.arrays[f"weight{i}"] * factor)
        if f"weight{i}" in ask.arrays
        else torch.full((len(ask.neurons),), float(factor))
        for i, factor in enumerate(factors)
    ]
    bias = ask.arrays.get("bias", ask.options.get("bias"))
    if bias is not None:
        bias = ask.among(bias if isinstance(bias, Tensor) else torch.tensor(float(bias)))
    return Fan(source, torch.stack(columns, -1), bias=bias)


def _dense(ask: Request) -> Fan:
    weight, bias = ask.arrays["weight"], ask.arrays.get("bias")
    neuron = torch.arange(ask.neurons.start, ask.neurons.stop)
    row, column = neuron // len(weight), neuron % len(weight)
    source = row[:, None] * weight.shape[1] + torch.arange(weight.shape[1])
    return Fan(source, weight[column], bias=None if bias is None else bias[column])


def _convolution(ask: Request) -> Fan:
    """Those of one or two axes: the window of each neuron, with the weights of its channel."""
    weight, bias, how = ask.arrays["weight"], ask.arrays.get("bias"), ask.options
    axes = weight.ndim - 2
    if how["transposed"] or axes > 2:
        raise NotImplementedError(ask.group.work)
    (form,) = ask.inputs
    # A place counts from 1, so that 0 is what is beyond the margin.
    places = (_places(form) + 1).double().reshape(form.shape[0], form.shape[1], *_two(form.shape[2:], 1))
    windows = functional.unfold(
        places,
        _two(weight.shape[2:], 1),
        dilation=_two(how["dilation"], 1),
        padding=_two(how["padding"], 0),
        stride=_two(how["stride"], 1),
    )
    terms = math.prod(weight.shape[1:])
    windows = windows.reshape(form.shape[0], how["groups"], terms, -1).long()
    neuron = torch.arange(ask.neurons.start, ask.neurons.stop)
    spots = windows.shape[-1]
    sample, channel, spot = neuron // (len(weight) * spots), neuron // spots % len(weight), neuron % spots
    source = windows[sample, channel // (len(weight) // how["groups"]), :, spot]
    present = source > 0
    weights = weight.reshape(len(weight), terms)[channel] * present
    return Fan((source - 1).clamp(min=0), weights, present, None if bias is None else bias[channel])


def _two(sizes: Sequence[int], first: int) -> tuple[int, ...]:
    return tuple(sizes) if len(sizes) == 2 else (first, *sizes)


def _along(ask: Request) -> Fan:
    """All values along the axes that are reduced."""
    (form,) = ask.inputs
    dims = ask.options["dims"] if ask.options["dims"] is not None else list(range(len(form.shape)))
    kept = [axis for axis in range(len(form.shape)) if axis not in dims]
    places = _places(form).permute([*kept, *dims]).reshape(ask.result.size, -1)
    return Fan(places[ask.neurons.start : ask.neurons.stop])


def _one(ask: Request) -> Fan:
    return Fan(ask.among(_places(ask.inputs[0]))[:, None])


FANS: dict[tuple[Kind, str], Callable[[Request], Fan]] = {
    (Kind.WEIGHTED_SUM, "aligned"): _aligned,
    (Kind.WEIGHTED_SUM, "dense"): _dense,
    (Kind.WEIGHTED_SUM, "convolution"): _convolution,
    (Kind.PRODUCT, "product"): _aligned,
    (Kind.REDUCTION, "larger"): _aligned,
    (Kind.REDUCTION, "smaller"): _aligned,
    **{(Kind.REDUCTION, work): _along for work in ("sum", "mean", "max", "min", "any", "all")},
}


def fan(ask: Request) -> Fan:
    """The synapses into some neurons of a group."""
    if ask.group.kind is Kind.FUNCTION:
        return _one(ask)
    return FANS[ask.group.kind, ask.group.work](ask)
