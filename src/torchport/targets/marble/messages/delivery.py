"""What a group is given to compute by messages: its inputs, and somebody who may watch every message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from torchport.targets.marble import works
from torchport.targets.marble.fans import Fan, Request, fan, form_of, request
from torchport.targets.marble.groups import Group

AT_ONCE = 1 << 18
"""Messages that are in memory at a time: as many as fit in a processor's own memory."""
Observer = Callable[[str, range, Tensor], None]
"""Takes the name of a group, the ids of some of its neurons, and the messages that they receive.

The messages are `[neurons, synapses]`, with 0 for a synapse that is not there, as beyond a margin. Those of a group
whose synapses are in a list are all in one row, in the order of the list. Of values that a selection chooses among,
the chosen one is a message. Messages of float16 and bfloat16 are added in float32, and so are shown as that.
"""


@dataclass(frozen=True)
class Delivery:
    """A group with the values that arrive at it."""

    group: Group
    inputs: Sequence[Tensor]
    arrays: Mapping[str, Tensor]
    """All arrays of the graph, by name."""
    sizes: works.Sizes
    observe: Observer | None

    @cached_property
    def own(self) -> dict[str, Tensor]:
        """The group's arrays, by what they are for."""
        return {purpose: self.arrays[name] for purpose, name in self.group.weights.items()}

    @cached_property
    def options(self) -> dict[str, Any]:
        return {name: works.settled(value, self.sizes) for name, value in self.group.options.items()}

    @cached_property
    def ask(self) -> Request:
        """The request for synapses. The group must have been made for values of these sizes."""
        inputs = [form_of(value) for value in self.inputs]
        return request(self.group, inputs, self.group.results, self.arrays, self.sizes)

    @cached_property
    def values(self) -> Tensor:
        """All that arrives, laid end to end."""
        return works.end_to_end(self.inputs)

    def tell(self, first: int, messages: Tensor, neurons: int | None = None) -> None:
        """Shows the messages of some neurons, the first of which is counted from 0."""
        if self.observe is not None:
            start = self.group.first + first
            ids = range(start, start + (len(messages) if neurons is None else neurons))
            self.observe(self.group.name, ids, messages)

    def tell_rows(self, rows: Tensor) -> None:
        """Shows the messages of all neurons, of which each has a row."""
        if self.observe is not None:
            for start, stop in portions(len(rows), rows.shape[1]):
                self.tell(start, rows[start:stop])

    def fans(self, index: int = 0) -> Iterator[tuple[int, Fan]]:
        """The synapses of all neurons of a result, some at a time, with the first neuron of each portion."""
        size = self.ask.results[index].size
        width = max(1, fan(self.ask, range(min(1, size)), index).source.shape[1])
        for start, stop in portions(size, width):
            yield start, fan(self.ask, range(start, stop), index)


def portions(neurons: int, synapses: int) -> Iterator[tuple[int, int]]:
    """Ranges of neurons that have about `AT_ONCE` synapses each."""
    step = max(1, AT_ONCE // max(1, synapses))
    for start in range(0, neurons, step):
        yield start, min(start + step, neurons)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype that sums are kept in."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
