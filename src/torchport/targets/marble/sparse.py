"""Synapses that were added one by one, as compressed rows: a row of sources and weights for each neuron of a group.

The sources are places in the added inputs of the group, laid end to end. What they bring is added to what the group's
own work gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble.groups import Group

ROW, SOURCE, WEIGHT, NUMBER, NEXT = "added.row", "added.source", "added.weight", "added.number", "added.next"
"""What the arrays are for: where the row of each neuron begins, the sources, the weights, and the synapses' numbers.

The last one has the number that the next synapse of each neuron gets, if some with higher numbers were removed.
"""
PURPOSES = (ROW, SOURCE, WEIGHT, NUMBER, NEXT)


@dataclass(frozen=True)
class Rows:
    """The added synapses of a group, one element for each, sorted by target."""

    target: Tensor
    """Neurons of the group, counted from 0."""
    source: Tensor
    """Places in the added inputs."""
    weight: Tensor
    number: Tensor
    """Which synapse of its neuron each is: it keeps its number when others are removed."""

    @classmethod
    def of(cls, arrays: Mapping[str, Tensor]) -> Self:
        row = arrays[ROW].long()
        target = torch.repeat_interleave(torch.arange(len(row) - 1), row.diff())
        number = arrays.get(NUMBER)
        if number is None:
            number = torch.arange(len(target)) - row[target]
        return cls(target, arrays[SOURCE].long(), arrays[WEIGHT], number.long())

    def arrays(self, neurons: int) -> dict[str, Tensor]:
        """The compressed rows; the numbers only if some are missing."""
        order = torch.argsort(
            self.target * (int(self.number.max()) + 1 if len(self.number) else 1) + self.number
        )
        target, number = self.target[order], self.number[order]
        row = torch.zeros(neurons + 1, dtype=torch.int64)
        row[1:] = torch.bincount(target, minlength=neurons).cumsum(0)
        width = self._width(len(target))
        found = {ROW: row.to(width), SOURCE: self.source[order].to(width), WEIGHT: self.weight[order]}
        is_whole = torch.equal(number, torch.arange(len(target)) - row[target])
        return found if is_whole else found | {NUMBER: number.int()}

    def _width(self, count: int) -> torch.dtype:
        """4 bytes for each place, if they suffice."""
        largest = max(count, int(self.source.max()) if len(self.source) else 0)
        return torch.int32 if largest < 2**31 else torch.int64


def has_added(group: Group) -> bool:
    """Whether the group has synapses that were added one by one."""
    return ROW in group.weights


def added_part(group: Group) -> Group:
    """The added synapses alone, as a group of the work `sparse`."""
    names = {"row": group.weights[ROW], "source": group.weights[SOURCE], "weight": group.weights[WEIGHT]}
    shape = {"shape": list(group.results[0].shape)}
    return replace(group, work="sparse", inputs=group.added_inputs, added=(), options=shape, weights=names)


def own_part(group: Group) -> Group:
    """The group without its added synapses."""
    weights = {purpose: name for purpose, name in group.weights.items() if purpose not in PURPOSES}
    return replace(group, inputs=group.own_inputs, added=(), weights=weights)


def must_fit(group: Group, own: Sequence[Tensor], added: Sequence[Tensor]) -> None:
    """Refuses values of other sizes than those that the synapses were added for."""
    if own[0].numel() != group.results[0].size or tuple(value.numel() for value in added) != group.added:
        raise NeuronError(
            "TP0905",
            f"synapses of the group {group.name} were changed one by one for {group.results[0].size} neurons; "
            f"with inputs of these sizes it would have {own[0].numel()}",
            fix="Run it with inputs of the shape that it was converted for.",
        )
