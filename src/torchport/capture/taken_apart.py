"""Axes that a module takes apart, slice by slice to the end, as a loop of Python over their length does.

In: a module of the graph. Out: where that is, and how many slices there are. The slices need not be used alike, nor in
their order, and what is taken apart may be computed from the module's input, as long as the axis is still that of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from torchport.capture import graph as g
from torchport.capture import operations

LEAST_STEPS = 3
UNBIND = "aten.unbind.int"
_SWAPPED = "aten.transpose.int"
_PERMUTED = "aten.permute.default"
_MIXING = frozenset(
    {
        "aten.view.default",
        "aten.reshape.default",
        "aten._unsafe_view.default",
        "aten.flatten.using_ints",
        "aten.unflatten.int",
        "aten.squeeze.default",
        "aten.squeeze.dim",
        "aten.unsqueeze.default",
        "aten.as_strided.default",
    }
)
"""Operations after which an axis of the same length is another one."""


@dataclass
class _Taken:
    """What was taken of one axis of one value."""

    places: set[int] = field(default_factory=set)
    slices: int = 0
    source: str | None = None


def taken_apart(module: g.Module, metas: Mapping[g.Ref, g.TensorMeta]) -> Iterator[tuple[str | None, int]]:
    """The line that takes the first slice of an axis that is taken apart, and the number of slices."""
    axes = _axes_of_inputs(module, metas)
    taken: dict[tuple[g.Ref, int], _Taken] = {}
    for node in module.nodes:
        found = _slice(node, metas)
        if found is not None and found[1] in axes.get(found[0], ()):
            ref, axis, places = found
            one = taken.setdefault((ref, axis), _Taken(source=node.source))
            one.slices += len(places) if node.op == UNBIND else not places <= one.places
            one.places |= places
    for (ref, axis), one in taken.items():
        size = metas[ref].shape[axis]
        if one.slices >= LEAST_STEPS and isinstance(size, int) and one.places >= set(range(size)):
            yield one.source, one.slices


def _axes_of_inputs(module: g.Module, metas: Mapping[g.Ref, g.TensorMeta]) -> dict[g.Ref, frozenset[int]]:
    """The axes of each value that are axes of an input still, as far as that can be told, and have a fixed length."""
    found = {
        g.Ref(item.name): frozenset(
            axis for axis, size in enumerate(item.meta.shape) if isinstance(size, int)
        )
        for item in module.inputs
    }
    for node in module.nodes:
        if node.op in _MIXING:
            continue
        for index, meta in enumerate(node.outputs):
            if meta is not None:
                read = [ref for ref in g.refs([node.args, node.kwargs]) if found.get(ref)]
                kept = (_kept(node, ref, found[ref], metas, meta) for ref in read)
                found[g.Ref(node.name, index)] = frozenset().union(*kept)
    return found


def _kept(
    node: g.Node,
    ref: g.Ref,
    axes: frozenset[int],
    metas: Mapping[g.Ref, g.TensorMeta],
    meta: g.TensorMeta,
) -> frozenset[int]:
    """The axes of a result that some axes of what an operation reads became."""
    before = metas[ref]
    if before.rank != meta.rank:
        return frozenset()
    order = _order(node, meta.rank)
    return frozenset(
        axis
        for axis in range(meta.rank)
        if order[axis] in axes and before.shape[order[axis]] == meta.shape[axis]
    )


def _order(node: g.Node, rank: int) -> list[int]:
    """Which axis of what an operation reads each axis of its result is."""
    order = list(range(rank))
    if node.op == _SWAPPED:
        one, other = node.args[1] % rank, node.args[2] % rank
        order[one], order[other] = order[other], order[one]
    elif node.op == _PERMUTED:
        order = [axis % rank for axis in node.args[1]]
    return order


def _slice(node: g.Node, metas: Mapping[g.Ref, g.TensorMeta]) -> tuple[g.Ref, int, set[int]] | None:
    """What a node takes a slice of, along which axis, and the places that it takes; None if it takes none."""
    if node.op not in ("aten.select.int", "aten.slice.Tensor", UNBIND):
        return None
    given = operations.bind(node.op, node.args, node.kwargs)
    ref, dim = given["self"], given["dim"]
    meta = metas.get(ref)
    if meta is None or type(meta.shape[dim]) is not int:
        return None
    size, axis = meta.shape[dim], dim % meta.rank
    if node.op == UNBIND:
        return ref, axis, set(range(size))
    if node.op == "aten.select.int":
        return (ref, axis, {given["index"] % size}) if type(given["index"]) is int else None
    bounds = given["start"], given["end"], given["step"]
    if not all(bound is None or type(bound) is int for bound in bounds) or axis == meta.rank - 1:
        return None  # Parts of the last axis are features, such as the gates of a cell.
    places = set(range(size)[slice(*bounds)])
    return (ref, axis, places) if len(places) < size else None
