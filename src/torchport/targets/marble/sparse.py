"""Synapses that were added one by one, as compressed rows: a row of sources and weights for each neuron of a group.

The sources are places in the added inputs of the group, laid end to end. What they bring is added to what the group's
own work gives.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble.groups import Group

ROW, SOURCE, WEIGHT, NUMBER = "added.row", "added.source", "added.weight", "added.number"
"""What the arrays are for: where the row of each neuron begins, the sources, the weights, and the synapses' numbers."""
PURPOSES = (ROW, SOURCE, WEIGHT, NUMBER)


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
        row = arrays[ROW]
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
        found = {ROW: row, SOURCE: _narrow(self.source[order]), WEIGHT: self.weight[order]}
        return (
            found
            if torch.equal(number, torch.arange(len(target)) - row[target])
            else found | {NUMBER: number.int()}
        )


def _narrow(places: Tensor) -> Tensor:
    """The sources in 4 bytes each, if they fit."""
    return places.int() if not len(places) or int(places.max()) < 2**31 else places


def with_added(
    group: Group, result: Tensor, inputs: Sequence[Tensor], arrays: Mapping[str, Tensor]
) -> Tensor:
    """What the group's own work gives, and what its added synapses bring."""
    row, weight = arrays[ROW], arrays[WEIGHT]
    if result.numel() != len(row) - 1:
        raise NeuronError(
            "TP0905",
            f"synapses of the group {group.name} were changed one by one for {len(row) - 1} neurons; "
            f"with inputs of these sizes it would have {result.numel()}",
            fix="Run it with inputs of the shape that it was converted for.",
        )
    if not len(weight):
        return result
    values = torch.cat([value.reshape(-1).to(weight.dtype) for value in inputs])
    return result + _product(row, arrays[SOURCE], weight, values).reshape(result.shape).to(result.dtype)


def _matrix(row: Tensor, source: Tensor, weight: Tensor, columns: int) -> Tensor:
    size = (len(row) - 1, columns)
    return torch.sparse_csr_tensor(row.to(source.dtype), source, weight, size, check_invariants=False)


with warnings.catch_warnings():
    # torch says once for each process that these tensors are new; users did not ask for them.
    warnings.simplefilter("ignore")
    _matrix(torch.zeros(1, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), torch.zeros(0), 0)


def _product(row: Tensor, source: Tensor, weight: Tensor, values: Tensor) -> Tensor:
    if weight.dtype in (torch.float32, torch.float64):
        return torch.mv(_matrix(row, source, weight, len(values)), values)
    return torch.segment_reduce((weight * values[source]).float(), "sum", offsets=row).to(weight.dtype)
