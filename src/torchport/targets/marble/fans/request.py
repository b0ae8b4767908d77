"""What is asked of a group, and the synapses that are the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from torchport.capture.graph import dtype_name
from torchport.targets.marble import works
from torchport.targets.marble.fans.reach import Axis, Reach, same
from torchport.targets.marble.groups import Form, Group


@dataclass(frozen=True)
class Fan:
    """The synapses into some neurons: a row for each neuron, of which each has equally many."""

    source: Tensor
    """`[neurons, synapses]`: the place that each comes from, in the inputs of the group laid end to end."""
    weight: Tensor | None = None
    """Of the same shape; None if no synapse has a weight."""
    present: Tensor | None = None
    """Of the same shape; None if all are there. At a margin some are not, and some may have been removed."""
    bias: Tensor | None = None
    """`[neurons]`: the weight of the synapse from the bias neuron, whose value is 1."""

    @property
    def count(self) -> int:
        number = self.source.numel() if self.present is None else int(self.present.sum())
        return number + (0 if self.bias is None else self.bias.numel())


@dataclass(frozen=True)
class Request:
    """A group, what arrives at it, and its own arrays and options."""

    group: Group
    inputs: tuple[Form, ...]
    results: tuple[Form, ...]
    arrays: Mapping[str, Tensor]
    """By what they are for."""
    options: Mapping[str, Any]

    @property
    def starts(self) -> list[int]:
        """The first place of each input, if they are laid end to end."""
        found, total = [], 0
        for form in self.inputs:
            found.append(total)
            total += form.size
        return found

    @property
    def arguments(self) -> dict[str, list[int]]:
        """The inputs that are given for each argument of the group's operation."""
        found: dict[str, list[int]] = {}
        following = 0
        for argument, count in self.options.get("order", ()):
            number = 1 if count is None else count if isinstance(count, int) else sum(count)
            found[argument] = list(range(following, following + number))
            following += number
        return found

    def argument(self, name: str) -> int:
        """The input that is given for an argument."""
        (index,) = self.arguments[name]
        return index

    def reach(self, index: int, axes: Sequence[Axis]) -> Reach:
        return Reach(index, self.starts[index], self.inputs[index].shape, tuple(axes))

    def aligned(self, index: int, result: Form, skipped: int = 0) -> Reach:
        """From the place of an input at the neuron's own coordinates, of which some at the end may be skipped."""
        shape = self.inputs[index].shape
        first = len(result.shape) - skipped - len(shape)
        return self.reach(index, [same(size, first + axis) for axis, size in enumerate(shape)])


def request(
    group: Group,
    inputs: Sequence[Form],
    results: Sequence[Form],
    arrays: Mapping[str, Tensor],
    sizes: works.Sizes,
) -> Request:
    """A request with the group's own arrays, of all arrays of a graph, and options without free sizes."""
    own = {purpose: arrays[name] for purpose, name in group.weights.items()}
    options = {name: works.settled(value, sizes) for name, value in group.options.items()}
    return Request(group, tuple(inputs), tuple(results), own, options)


def form_of(value: Tensor) -> Form:
    return Form(tuple(value.shape), dtype_name(value.dtype))


def coordinates(neurons: Tensor, shape: Sequence[int]) -> list[Tensor]:
    """The coordinates of neurons of a result, which are counted from 0."""
    found: list[Tensor] = []
    for size in reversed(shape):
        found.insert(0, neurons % size)
        neurons = neurons.div(size, rounding_mode="floor")
    return found
