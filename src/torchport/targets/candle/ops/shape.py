"""Operations that only move or repeat elements."""

from __future__ import annotations

from torchport.capture import graph as g
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, call, code, joined, slice_of
from torchport.targets.candle.emit import Emitter, shape_of
from torchport.targets.candle.operands import axes, axis, cast, number, part
from torchport.targets.candle.registry import op, rows

rows(
    {
        "aten.tril.default": "ops::tril({self}, {diagonal:i64})?",
        "aten.triu.default": "ops::triu({self}, {diagonal:i64})?",
        "aten.flip.default": "ops::flip({self}, {dims:axes})?",
        "aten.repeat.default": "ops::repeat({self}, {repeats:sizes})?",
        "aten.pixel_shuffle.default": "ops::pixel_shuffle({self}, {upscale_factor:usize})?",
    }
)


@op("aten.reshape.default")
def reshape(e: Emitter, a: Args) -> Code:
    a.ignore("shape")
    before, after = e.meta(a["self"]).shape, a.output.shape
    x, joined_axes = e.receiver(a["self"]), _joined_axes(before, after)
    if joined_axes is None:
        return x.method("reshape", e.shape(after))
    first, last = joined_axes
    if last < len(before) - 1:
        return x.method("flatten", first, last)
    return x.method("flatten_from", first) if first else x.method("flatten_all")


def _joined_axes(before: tuple[g.Dim, ...], after: tuple[g.Dim, ...]) -> tuple[int, int] | None:
    """The first and last of the axes that a reshape joins, or None if it does more than join neighbours."""
    if len(after) >= len(before) or not after:
        return None
    first = next((i for i, (x, y) in enumerate(zip(before, after, strict=False)) if x != y), len(after) - 1)
    kept = len(after) - first - 1
    last = len(before) - kept - 1
    return (first, last) if kept == 0 or before[last + 1 :] == after[first + 1 :] else None


@op("aten.permute.default")
def permute(e: Emitter, a: Args) -> Code:
    dims = axes(e, a["self"], a["dims"])
    moved = [i for i, dim in enumerate(dims) if i != dim]
    if len(moved) == 2:
        return e.receiver(a["self"]).method("transpose", *moved)
    if not moved:
        return e.receiver(a["self"]).cloned
    order = joined(", ", dims)
    return e.receiver(a["self"]).method("permute", code("({})" if len(dims) <= 6 else "[{}]", order))


@op("aten.transpose.int")
def transpose(e: Emitter, a: Args) -> Code:
    rank = e.meta(a["self"]).rank
    first, second = sorted((axis(a["dim0"], rank), axis(a["dim1"], rank)))
    if first == second:
        return e.receiver(a["self"]).cloned
    if rank == 2:
        return e.receiver(a["self"]).method("t")
    return e.receiver(a["self"]).method("transpose", first, second)


@op("aten.t.default")
def t(e: Emitter, a: Args) -> Code:
    x = e.receiver(a["self"])
    return x.method("t") if e.meta(a["self"]).rank == 2 else x.cloned


@op("aten.unsqueeze.default")
def unsqueeze(e: Emitter, a: Args) -> Code:
    return e.receiver(a["self"]).method("unsqueeze", axis(a["dim"], e.meta(a["self"]).rank + 1))


def _squeeze(e: Emitter, a: Args, dims: list[int]) -> Code:
    """A free axis is longer than 1 in what was captured; a shorter one would give a tensor of another rank."""
    shape = e.meta(a["self"]).shape
    value = e.receiver(a["self"])
    for dim in dims:
        if isinstance(shape[dim], g.Sym):
            value = call("ops::keep_axis", value.borrowed, dim)
    for dim in sorted((d for d in dims if shape[d] == 1), reverse=True):
        value = value.method("squeeze", dim)
    return value if value.endswith("?") else value.cloned


@op("aten.squeeze.dim", "aten.squeeze.dims")
def squeeze(e: Emitter, a: Args) -> Code:
    dims = a["dim"]
    return _squeeze(e, a, axes(e, a["self"], dims) if dims != [] else [])  # no axis does not mean all axes


@op("aten.squeeze.default")
def squeeze_all(e: Emitter, a: Args) -> Code:
    return _squeeze(e, a, list(range(e.meta(a["self"]).rank)))


@op("aten.expand.default")
def expand(e: Emitter, a: Args) -> Code:
    a.ignore("size", "implicit")
    before, after = e.meta(a["self"]).shape, a.output.shape
    grown = [1] * (len(after) - len(before)) + list(before)
    sizes = [
        e.size(new, "repeat" if old == 1 and new != 1 else "size")
        for old, new in zip(grown, after, strict=True)
    ]
    return e.receiver(a["self"]).method("broadcast_as", shape_of(sizes))


@op("aten.cat.default")
def cat(e: Emitter, a: Args) -> Code:
    tensors = [item for item in a["tensors"] if e.meta(item).shape != (0,) or a.output.rank == 1]
    return _put_together(e, a, "cat", tensors)


@op("aten.stack.default")
def stack(e: Emitter, a: Args) -> Code:
    return _put_together(e, a, "stack", a["tensors"])


def _put_together(e: Emitter, a: Args, name: str, tensors: list[g.Ref]) -> Code:
    vector = e.collected.get(tuple(tensors))
    items = vector.reference if vector else slice_of([cast(e, item, a.output.dtype) for item in tensors])
    return call(f"Tensor::{name}", items, axis(a["dim"], a.output.rank))


@op(
    "aten.split.Tensor",
    "aten.unsafe_split.Tensor",
    "aten.split_with_sizes.default",
)
def split(e: Emitter, a: Args) -> list[Code]:
    """One `narrow` for each output, from the sizes that the outputs have."""
    a.ignore("split_size", "split_sizes")
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    e.name_if_expression(a["self"])
    offset: g.Dim = 0
    pieces = []
    for meta in a.node.outputs:
        assert meta is not None
        size = meta.shape[dim]
        start = "0" if offset == 0 else e.size(offset, "offset")
        pieces.append(part(e, a["self"], dim, start, size))
        offset = g.added(offset, size)
    return pieces


@op("aten.unbind.int")
def unbind(e: Emitter, a: Args) -> list[Code]:
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    e.name_if_expression(a["self"])
    return [call("ops::select", e.ref(a["self"]), dim, index) for index in range(len(a.node.outputs))]


@op("aten.roll.default")
def roll(e: Emitter, a: Args) -> Code:
    shifts = slice_of([number(e, shift, "shift", "i64") for shift in a["shifts"]])
    dims = axes(e, a["self"], a["dims"]) if a["dims"] else []
    return call("ops::roll", e.ref(a["self"]), shifts, slice_of(dims))


@op("aten.diagonal.default")
def diagonal(e: Emitter, a: Args) -> Code:
    rank = e.meta(a["self"]).rank
    dims = axis(a["dim1"], rank), axis(a["dim2"], rank)
    return call("ops::diagonal", e.ref(a["self"]), number(e, a["offset"], "diagonal", "i64"), *dims)


@op("aten.narrow_copy.default")
def narrow(e: Emitter, a: Args) -> Code:
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    bounds = [number(e, value, "offset", "i64") for value in (a["start"], g.added(a["start"], a["length"]))]
    return call("ops::slice", e.ref(a["self"]), dim, *bounds, 1)


@op("aten.repeat_interleave.self_int")
def repeat_interleave(e: Emitter, a: Args) -> Code:
    a.ignore("output_size")
    if a["dim"] is None:
        flat = e.receiver(a["self"]).method("flatten_all").borrowed
        return call("ops::repeat_interleave", flat, e.size(a["repeats"]), 0)
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    return call("ops::repeat_interleave", e.ref(a["self"]), e.size(a["repeats"]), dim)


@op("aten.unfold.default")
def unfold(e: Emitter, a: Args) -> Code:
    dim = axis(a["dimension"], e.meta(a["self"]).rank)
    return call("ops::unfold", e.ref(a["self"]), dim, e.size(a["size"]), e.size(a["step"]))
