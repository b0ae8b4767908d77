"""How many synapses a group has, found without listing them.

A synapse from the bias neuron, whose value is 1, counts too. So does each of those that share a weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from torchport.targets.marble.arrivals import Arrivals
from torchport.targets.marble.fans import Request, fan, reaches
from torchport.targets.marble.fans.lists import is_listed, listing
from torchport.targets.marble.fans.weights import kernels
from torchport.targets.marble.groups import Form, NeuronGraph
from torchport.targets.marble.messages.delivery import portions


def synapses(ask: Request) -> int:
    """The synapses into all neurons of a group, if every place of its inputs has a neuron."""
    if is_listed(ask):
        return listing(ask).count + _biases(ask)
    if "present" in ask.arrays:
        return _left(ask) + _biases(ask)
    found = (reach.count(result.shape) for result in ask.results for reach in reaches(ask, result))
    return sum(found) + _biases(ask)


def _biases(ask: Request) -> int:
    has_bias = "bias" in ask.arrays or ask.options.get("bias") is not None
    return ask.results[0].size if has_bias else 0


def _left(ask: Request) -> int:
    """The synapses of a dense or convolutional group of which some were removed: a flag stands for many of them."""
    flags, (result,) = ask.arrays["present"], ask.results
    if ask.group.work == "dense":
        return int(flags.sum()) * math.prod(result.shape[:-1])
    rows = kernels(flags, ask.options["transposed"], ask.options["groups"])
    (reach,) = reaches(ask, result)
    times = torch.tensor(result.shape[0])
    for axis in reach.axes[2:]:
        times = times[..., None] * (axis.table >= 0).sum(0)
    return int((rows.reshape(-1, times.numel()).sum(0) * times.flatten()).sum())


class Counts:
    """The synapses of the groups of a graph. Those that would come from nobody, as from padding, are not there."""

    def __init__(
        self, graph: NeuronGraph, arrays: Mapping[str, Tensor], arrivals: Arrivals | None = None
    ) -> None:
        self.graph, self.arrays = graph, arrays
        self.arrivals = Arrivals(graph) if arrivals is None else arrivals

    def of(self, name: str) -> int:
        """The synapses into the neurons of one group."""
        ask = self.arrivals.request(name, self.arrays)
        if not self.arrivals.may_lack(name):
            return synapses(ask)
        lacking = [ids < 0 for ids in self.arrivals.at(name)]
        if "present" in ask.arrays or is_listed(ask):
            return _enumerated(ask, torch.cat([missing.flatten() for missing in lacking]))
        return synapses(ask) - sum(_from_nobody(ask, result, lacking) for result in ask.results)

    def total(self) -> int:
        return sum(self.of(group.name) for group in self.graph.groups() if group.neurons)


def _from_nobody(ask: Request, result: Form, lacking: list[Tensor]) -> int:
    """How many synapses come from places that have no neuron."""
    found = 0
    for reach in reaches(ask, result):
        missing = lacking[reach.input]
        if missing.any():
            found += int(reach.departures(result.shape)[missing].sum())
    return found


def _enumerated(ask: Request, missing: Tensor) -> int:
    found = 0
    for index, result in enumerate(ask.results):
        width = max(1, fan(ask, range(min(1, result.size)), index).source.shape[1])
        for start, stop in portions(result.size, width):
            some = fan(ask, range(start, stop), index)
            there = ~missing[some.source]
            found += int((there if some.present is None else there & some.present).sum())
    return found + _biases(ask)
