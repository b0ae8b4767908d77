"""Where synapses come from, for each work: how far they reach into each input of the group.

A pattern takes a request and one of the results, and gives a `Reach` for each input that synapses come from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torchport.targets.marble.fans import windows
from torchport.targets.marble.fans.reach import Axis, Reach, same, whole
from torchport.targets.marble.fans.request import Request
from torchport.targets.marble.groups import Form

Pattern = Callable[[Request, Form], list[Reach]]


def aligned(ask: Request, result: Form) -> list[Reach]:
    """One synapse from each input, from the neuron at the same place."""
    return [ask.aligned(index, result) for index in range(len(ask.inputs))]


def single(ask: Request, result: Form) -> list[Reach]:
    """One synapse, from the neuron at the same place; another input only lends its dtype."""
    return [ask.aligned(0, result)]


def everything(ask: Request, result: Form) -> list[Reach]:
    """All that arrives."""
    shapes = [form.shape for form in ask.inputs]
    return [ask.reach(index, [whole(size) for size in shape]) for index, shape in enumerate(shapes)]


# Along axes


def reduced(ask: Request, result: Form) -> list[Reach]:
    """All values along the axes that are reduced."""
    return [along(ask, 0, ask.options.get("dims"), result)]


def along_dim(ask: Request, result: Form) -> list[Reach]:
    """All values along the option `dim`, which is one axis or several; along all axes if there is none."""
    default = None if ask.group.work in _OF_ALL_AXES else -1
    dims = ask.options.get("dim", default)
    return [along(ask, 0, None if dims == [] else dims, result)]


_OF_ALL_AXES = frozenset(
    f"aten.{name}"
    for name in (
        "argmax.default",
        "argmin.default",
        "prod.default",
        "linalg_vector_norm.default",
        "median.default",
    )
)


def along_other_dims(ask: Request, result: Form) -> list[Reach]:
    """All values along every axis but the option `dim`."""
    rank = len(ask.inputs[0].shape)
    dim = ask.options.get("dim", 0) % max(rank, 1)
    return [along(ask, 0, [axis for axis in range(rank) if axis != dim], result)]


def distances(ask: Request, result: Form) -> list[Reach]:
    """One row of the first input and one of the second."""
    last = len(result.shape) - 1
    found = []
    for index, own in enumerate((last - 1, last)):
        *lines, rows, columns = ask.inputs[index].shape
        first = last - 1 - len(lines)
        leading = [same(size, first + axis) for axis, size in enumerate(lines)]
        found.append(ask.reach(index, [*leading, same(rows, own), whole(columns)]))
    return found


def along(ask: Request, index: int, dims: int | Sequence[int] | None, result: Form) -> Reach:
    """From an input: all along some axes, and the neuron's own position along the others."""
    shape = ask.inputs[index].shape
    rank = len(shape)
    given = range(rank) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {dim % max(rank, 1) for dim in given}
    kept = [axis for axis in range(rank) if axis not in gone]
    is_kept = len(result.shape) == rank
    axes = [
        whole(size) if axis in gone else same(size, axis if is_kept else kept.index(axis))
        for axis, size in enumerate(shape)
    ]
    return ask.reach(index, axes)


def gathered(ask: Request, result: Form) -> list[Reach]:
    """All candidates along an axis, and the index that chooses among them."""
    dim, candidates = ask.options["dim"], ask.argument("self")
    rank = len(ask.inputs[candidates].shape)
    axes = [
        whole(size) if axis == dim % max(rank, 1) else _within(size, result.shape[axis], axis)
        for axis, size in enumerate(ask.inputs[candidates].shape)
    ]
    return [ask.reach(candidates, axes), ask.aligned(ask.argument("index"), result)]


def _within(size: int, result: int, along: int) -> Axis:
    """The neuron's own position along an axis of the input that may be longer than that of the result."""
    return Axis(torch.arange(min(size, result))[:, None], along)


def index_selected(ask: Request, result: Form) -> list[Reach]:
    dim, candidates = ask.options["dim"], ask.argument("self")
    dim = dim % max(len(ask.inputs[candidates].shape), 1)
    index = ask.argument("index")
    chooser = [same(size, dim) for size in ask.inputs[index].shape]
    return [along(ask, candidates, dim, result), ask.reach(index, chooser)]


def embedded(ask: Request, result: Form) -> list[Reach]:
    """Every row of the weight, in the neuron's own column, and the index that chooses the row."""
    weight, index = ask.argument("weight"), ask.argument("indices")
    rows, columns = ask.inputs[weight].shape
    table = ask.reach(weight, [whole(rows), same(columns, len(result.shape) - 1)])
    return [table, ask.aligned(index, result, skipped=1)]


def renormed(ask: Request, result: Form) -> list[Reach]:
    """The whole row of the weight, and all indices, which say whether the row is scaled."""
    rows, columns = ask.inputs[0].shape
    return [ask.reach(0, [same(rows, 0), whole(columns)]), *everything(ask, result)[1:]]


def one_hot(ask: Request, result: Form) -> list[Reach]:
    return [ask.aligned(0, result, skipped=1)]


def searched(ask: Request, result: Form) -> list[Reach]:
    """The value, and all boundaries that it is compared with."""
    names = ask.arguments
    bounds = names["boundaries" if "boundaries" in names else "sorted_sequence"][0]
    *lines, size = ask.inputs[bounds].shape
    axes = [*(same(length, axis) for axis, length in enumerate(lines)), whole(size)]
    sorter = [ask.reach(index, axes) for index in names.get("sorter", [])]
    return [ask.reach(bounds, axes), ask.aligned(ask.argument("self"), result), *sorter]


def looked_up(ask: Request, result: Form) -> list[Reach]:
    """The value, and all others that it is looked for among."""
    own, others = ask.argument("elements"), ask.argument("test_elements")
    return [ask.aligned(own, result), everything(ask, result)[others]]


def sampled(ask: Request, result: Form) -> list[Reach]:
    """The whole plane of the neuron's channel, and the spot in it that the grid names."""
    (samples, channels, *plane), grid = ask.inputs[0].shape, ask.inputs[1].shape
    picture = [same(samples, 0), same(channels, 1), *(whole(size) for size in plane)]
    spots = [
        same(grid[0], 0),
        *(same(size, axis + 2) for axis, size in enumerate(grid[1:-1])),
        whole(grid[-1]),
    ]
    return [ask.reach(0, picture), ask.reach(1, spots)]


# Windows


def convolved(ask: Request, result: Form) -> list[Reach]:
    """The window of the neuron, in all channels of its part of the channels."""
    how, weight = ask.options, ask.arrays["weight"]
    samples, channels, *sizes = ask.inputs[0].shape
    table = windows.transposed_window if how["transposed"] else windows.window
    axes = [same(samples, 0), _channels(channels, result.shape[1], how["groups"])]
    for axis, size in enumerate(sizes):
        spots, kernel = result.shape[axis + 2], weight.shape[axis + 2]
        step = (how["stride"][axis], how["padding"][axis], how["dilation"][axis])
        axes.append(Axis(table(size, spots, kernel, *step), axis + 2))
    return [ask.reach(0, axes)]


def _channels(channels: int, results: int, groups: int) -> Axis:
    if groups == 1:
        return whole(channels)
    part = torch.arange(results).div(max(results // groups, 1), rounding_mode="floor")
    return Axis(part[:, None] * (channels // groups) + torch.arange(channels // groups), 1)


def pooled(ask: Request, result: Form) -> list[Reach]:
    """The window of the neuron."""
    tables = [
        windows.window(size, spots, *step)
        for size, spots, step in zip(*spatial(ask, result), pooling_steps(ask), strict=True)
    ]
    return _in_windows(ask, tables)


def adaptively_pooled(ask: Request, result: Form) -> list[Reach]:
    sizes, spots = spatial(ask, result)
    return _in_windows(ask, [windows.adaptive_window(*both) for both in zip(sizes, spots, strict=True)])


def _in_windows(ask: Request, tables: Sequence[torch.Tensor]) -> list[Reach]:
    shape = ask.inputs[0].shape
    first = len(shape) - len(tables)
    leading = [same(size, axis) for axis, size in enumerate(shape[:first])]
    return [ask.reach(0, [*leading, *(Axis(table, first + nth) for nth, table in enumerate(tables))])]


def axes_of_windows(work: str) -> int:
    """How many axes an operation's windows have, which is in its name, as in `max_pool2d`."""
    found = re.search(r"(\d)d", work)
    assert found is not None
    return int(found[1])


def spatial(ask: Request, result: Form) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes of the axes that windows lie along, of the input and of the result."""
    axes = axes_of_windows(ask.group.work)
    return ask.inputs[0].shape[-axes:], result.shape[-axes:]


def pooling_steps(ask: Request) -> list[tuple[int, int, int, int]]:
    """Kernel, stride, padding and dilation of each axis."""
    axes = axes_of_windows(ask.group.work)
    kernel = _each(ask.options["kernel_size"], axes)
    stride = _each(ask.options.get("stride") or kernel, axes)
    padding, dilation = (_each(ask.options.get(name, value), axes) for name, value in _UNSAID)
    return list(zip(kernel, stride, padding, dilation, strict=True))


_UNSAID = (("padding", 0), ("dilation", 1))


def _each(sizes: Any, axes: int) -> list[int]:
    given = [sizes] if isinstance(sizes, int) else list(sizes)
    return given * axes if len(given) == 1 else given


# Weighted sums along axes


def dense(ask: Request, result: Form) -> list[Reach]:
    """All values along the last axis."""
    *lines, size = ask.inputs[0].shape
    return [ask.reach(0, [*(same(length, axis) for axis, length in enumerate(lines)), whole(size)])]


def accumulated(ask: Request, result: Form) -> list[Reach]:
    """Every value along an axis up to the neuron's own position."""
    shape = ask.inputs[0].shape
    dim = ask.options["dim"] % max(len(shape), 1)
    axes = [
        Axis(windows.until(size), axis) if axis == dim else same(size, axis)
        for axis, size in enumerate(shape)
    ]
    return [ask.reach(0, axes)]


def differing(ask: Request, result: Form) -> list[Reach]:
    """Neighbours along an axis, across what is put before and after the input."""
    order = ask.options.get("n", 1)
    rank = len(result.shape)
    dim = ask.options.get("dim", -1) % max(rank, 1)
    factors = windows.difference_factors(order)
    names, before, found = ask.arguments, 0, []
    for index in [*names.get("prepend", []), *names["self"], *names.get("append", [])]:
        shape = ask.inputs[index].shape
        table = windows.neighbours(shape[dim], result.shape[dim], order + 1, before)
        own = Axis(table, dim, factors.expand(table.shape))
        axes = [own if axis == dim else same(size, axis) for axis, size in enumerate(shape)]
        found.append(ask.reach(index, axes))
        before += shape[dim]
    return found


def interpolated(ask: Request, result: Form) -> list[Reach]:
    """The neighbours that a value is interpolated from, with the weights that torch gives them."""
    shape = ask.inputs[0].shape
    dtype = getattr(torch, ask.inputs[0].dtype)
    dtype = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    mode = "bicubic" if "bicubic" in ask.group.work else "linear"
    scales = ask.options.get("scale_factors") or [None] * (len(shape) - 2)
    axes = [same(shape[0], 0), same(shape[1], 1)]
    for axis, scale in enumerate(scales, 2):
        corners = ask.options["align_corners"]
        table, factor = windows.resized(mode, shape[axis], result.shape[axis], corners, scale, dtype)
        axes.append(Axis(table, axis, factor))
    return [ask.reach(0, axes)]
