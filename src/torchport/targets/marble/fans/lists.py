"""Groups whose synapses are in a list: those that are built by hand, and those that no table of axes describes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from torchport.targets.marble.fans.request import Fan, Request

_LISTED = frozenset({"sparse", "aten.col2im.default"})


@dataclass(frozen=True)
class Listing:
    """Synapses one after the other, those of each neuron together."""

    row: Tensor
    """`[neurons + 1]`: the first synapse of each neuron, and the end."""
    source: Tensor
    weight: Tensor
    present: Tensor | None = None
    bias: Tensor | None = None

    @property
    def count(self) -> int:
        return len(self.source) if self.present is None else int(self.present.sum())

    def targets(self, places: Tensor) -> Tensor:
        """The neurons that have a synapse from one of some places, in order; one may be there several times."""
        synapse = torch.isin(self.source, places).nonzero()[:, 0]
        neurons: Tensor = torch.searchsorted(self.row, synapse, right=True) - 1
        return neurons

    def fan(self, neurons: Tensor) -> Fan:
        first, count = self.row[neurons], self.row[neurons + 1] - self.row[neurons]
        nth = torch.arange(int(count.max()) if len(count) else 0)
        there = nth < count[:, None]
        place = (first[:, None] + nth).where(there, 0)
        if self.present is not None:
            there = there & self.present[place]
        source = self.source[place].long().where(there, 0)
        weight = self.weight[place].where(there, 0)
        return Fan(source, weight, there, None if self.bias is None else self.bias.flatten()[neurons])


def is_listed(ask: Request) -> bool:
    return ask.group.work in _LISTED


def listing(ask: Request) -> Listing:
    """The list of a group that has one."""
    if ask.group.work == "sparse":
        own = ask.arrays
        row, source = own["row"].long(), own["source"]
        return Listing(row, source, own["weight"], own.get("present"), own.get("bias"))
    how = [tuple(ask.options[name]) for name in ("kernel_size", "dilation", "padding", "stride")]
    return _folded(ask.results[0].shape, *how)


@lru_cache(maxsize=16)
def _folded(
    result: tuple[int, ...],
    kernel: tuple[int, ...],
    dilation: tuple[int, ...],
    padding: tuple[int, ...],
    stride: tuple[int, ...],
) -> Listing:
    """Windows laid back where they came from: unfolding the neurons says which one each place goes to."""
    neurons = torch.Size(result).numel()
    ids = torch.arange(1, neurons + 1).double().reshape(result)
    target = functional.unfold(ids, kernel, dilation, padding, stride).flatten().long() - 1
    source = target.argsort(stable=True)[int((target < 0).sum()) :]
    row = torch.zeros(neurons + 1, dtype=torch.int64)
    row[1:] = torch.bincount(target[target >= 0], minlength=neurons).cumsum(0)
    return Listing(row, source, torch.ones(len(source), dtype=torch.int64))
