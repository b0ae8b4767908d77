"""Selections by messages: the operation is done on places, and the message from the chosen place is passed on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torchport.targets.marble import works
from torchport.targets.marble.fans.patterns import axes_of_windows
from torchport.targets.marble.messages.delivery import Delivery

A_NUMBER = -1
"""The place of a number that is an option and no neuron's value."""
MOVED: dict[str, tuple[str, ...]] = {
    "aten.where.self": ("self", "other"),
    "aten.where.ScalarSelf": ("self", "other"),
    "aten.where.ScalarOther": ("self", "other"),
    "aten.masked_fill.Scalar": ("self", "value"),
    "aten.masked_fill.Tensor": ("self", "value"),
    "aten.gather.default": ("self",),
    "aten.index_select.default": ("self",),
    "aten.embedding.default": ("weight",),
    "aten.index.Tensor": ("self",),
    "aten._unsafe_index.Tensor": ("self",),
    "aten.index_put.default": ("self", "values"),
    "aten._unsafe_index_put.default": ("self", "values"),
    "aten.scatter.src": ("self", "src"),
    "aten.scatter.value": ("self", "value"),
}
"""The arguments whose values are passed on, for operations that only move values."""


def moved(given: Delivery) -> list[Tensor]:
    """The operation on places instead of values; an argument that is a number has a place of its own."""
    names, ask = MOVED[given.group.work], given.ask
    if given.options.get("accumulate"):
        return left(given)
    inputs, options = list(given.inputs), dict(given.options)
    number = [options[name] for name in names if name in options]
    options |= {name: A_NUMBER for name in names if name in options}
    for name in names:
        for index in ask.arguments.get(name, []):
            start, form = ask.starts[index], ask.inputs[index]
            inputs[index] = torch.arange(start, start + form.size).reshape(form.shape)
    place = works.operation(given.group.work, inputs, options)
    dtype = getattr(torch, ask.results[0].dtype)
    return [_passed_on(given, place, dtype, number)]


def _passed_on(given: Delivery, place: Tensor, dtype: torch.dtype, number: Sequence[float]) -> Tensor:
    """The messages from some places."""
    values = works.end_to_end([value.to(dtype) for value in given.inputs])
    if number:
        values = torch.cat([values, torch.tensor([number[0]]).to(dtype)])
    chosen = values[place]
    given.tell_rows(chosen.reshape(-1, 1))
    return chosen


Along = Callable[[Delivery, Tensor], Tensor]
"""Takes the indices that an operation has chosen, and gives the places in its input that they are."""


def chosen(places: Along) -> Callable[[Delivery], list[Tensor]]:
    """An operation that compares its messages, chooses some, and gives both what it chose and where that was."""

    def work(given: Delivery) -> list[Tensor]:
        _, index = works.compute(given.group, given.inputs, given.arrays, given.sizes)
        place = places(given, index)
        message = given.inputs[0].reshape(-1)[place]
        given.tell_rows(message.reshape(-1, 1))
        return [message, index]

    return work


def along_dim(given: Delivery, index: Tensor) -> Tensor:
    value = given.inputs[0]
    places = torch.arange(value.numel()).reshape(value.shape)
    if not value.ndim:
        return places
    dim = given.options.get("dim", -1)
    if index.ndim == value.ndim:
        return places.gather(dim, index)
    return places.gather(dim, index.unsqueeze(dim)).squeeze(dim)


def in_plane(given: Delivery, index: Tensor) -> Tensor:
    """Of an index into the axes that windows lie along."""
    shape, axes = given.inputs[0].shape, axes_of_windows(given.group.work)
    planes = torch.arange(shape[:-axes].numel()).reshape(*shape[:-axes], *[1] * axes)
    return planes * shape[-axes:].numel() + index


LEFT: Mapping[str, str] = {
    "aten.argmax.default": "gives an index and no value",
    "aten.argmin.default": "gives an index and no value",
    "aten.argsort.default": "gives indices and no values",
    "aten.argsort.stable": "gives indices and no values",
    "aten.isin.Tensor_Tensor": "gives a flag and no value",
    "aten.median.default": "says the value that it chooses and not its place",
    "aten._trilinear.default": "multiplies and adds in one go",
    "aten._pdist_forward.default": "subtracts before it joins",
    "aten.embedding_renorm.default": "scales the rows that its indices name",
    "aten.masked_scatter.default": "which value comes where depends on how many flags are set before",
    "aten.one_hot.default": "compares a value with the numbers of classes",
    "aten.bucketize.Tensor": "compares a value with boundaries, and gives an index",
    "aten.searchsorted.Tensor": "compares a value with boundaries, and gives an index",
    "aten.nonzero.default": "how much comes out depends on the values",
    "aten.scatter_add.default": "adds what arrives at the same place",
    "aten.scatter_reduce.two": "joins what arrives at the same place",
    "aten.grid_sampler_2d.default": "the weights of its synapses are computed from values",
    "aten.embedding_bag.padding_idx": "joins the rows that its indices name",
    "aten._embedding_bag.default": "joins the rows that its indices name",
    "aten._embedding_bag_forward_only.default": "joins the rows that its indices name",
}
"""What is done as `works` does it, with the reason, besides `index_put` if it accumulates."""


def left(given: Delivery) -> list[Tensor]:
    """All that arrives, as it is: the operation itself is what a neuron does."""
    if given.observe is not None:
        for index in range(len(given.ask.results)):
            before = sum(form.size for form in given.ask.results[:index])
            for start, synapses in given.fans(index):
                messages = given.values[synapses.source]
                present = synapses.present
                given.tell(before + start, messages if present is None else messages.where(present, 0))
    return works.compute(given.group, given.inputs, given.arrays, given.sizes)


def _table() -> dict[str, Callable[[Delivery], list[Tensor]]]:
    found: dict[str, Any] = dict.fromkeys(MOVED, moved) | dict.fromkeys(LEFT, left)
    dims = "topk.default sort.default sort.stable max.dim min.dim median.dim kthvalue.default cummax.default"
    found |= {f"aten.{name}": chosen(along_dim) for name in [*dims.split(), "cummin.default"]}
    pools = ("adaptive_max_pool{}d.default", "max_pool{}d_with_indices.default")
    return found | {f"aten.{pool.format(n)}": chosen(in_plane) for pool in pools for n in (1, 2, 3)}


CHOICES = _table()
