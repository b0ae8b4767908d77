"""Operations that only move or repeat elements."""

from __future__ import annotations

from torchport.capture import graph as g
from torchport.targets.candle.emit import Emitter, Unsupported
from torchport.targets.candle.registry import Args, axes, axis, cast, named, number, op, rows

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
def reshape(e: Emitter, a: Args) -> str:
    for name in ("shape", "size"):
        if name in a.values:
            a[name]
    before, after = e.meta(a["self"]).shape, a.output.shape
    flattened = _flattened(before, after)
    if flattened is not None:
        first, last = flattened
        if last == len(before) - 1:
            return f"{e.receiver(a['self'])}.flatten_from({first})?" if first else _flat(e, a)
        return f"{e.receiver(a['self'])}.flatten({first}, {last})?"
    return f"{e.receiver(a['self'])}.reshape({e.shape(after)})?"


def _flat(e: Emitter, a: Args) -> str:
    return f"{e.receiver(a['self'])}.flatten_all()?"


def _flattened(before: tuple[g.Dim, ...], after: tuple[g.Dim, ...]) -> tuple[int, int] | None:
    """The axes that were joined, if the reshape joins neighbours and changes nothing else."""
    if len(after) >= len(before) or not after:
        return None
    first = next((i for i, (x, y) in enumerate(zip(before, after, strict=False)) if x != y), len(after) - 1)
    kept = len(after) - first - 1
    last = len(before) - kept - 1
    return (first, last) if kept == 0 or before[last + 1 :] == after[first + 1 :] else None


@op("aten.permute.default")
def permute(e: Emitter, a: Args) -> str:
    dims = axes(e, a["self"], a["dims"])
    moved = [i for i, dim in enumerate(dims) if i != dim]
    if len(moved) == 2:
        return f"{e.receiver(a['self'])}.transpose({moved[0]}, {moved[1]})?"
    if not moved:
        return f"{e.receiver(a['self'])}.clone()"
    order = ", ".join(map(str, dims))
    return f"{e.receiver(a['self'])}.permute({'(' + order + ')' if len(dims) <= 6 else '[' + order + ']'})?"


@op("aten.transpose.int")
def transpose(e: Emitter, a: Args) -> str:
    rank = e.meta(a["self"]).rank
    first, second = sorted((axis(a["dim0"], rank), axis(a["dim1"], rank)))
    if first == second:
        return f"{e.receiver(a['self'])}.clone()"
    if rank == 2:
        return f"{e.receiver(a['self'])}.t()?"
    return f"{e.receiver(a['self'])}.transpose({first}, {second})?"


@op("aten.t.default")
def t(e: Emitter, a: Args) -> str:
    return f"{e.receiver(a['self'])}.{'t()?' if e.meta(a['self']).rank == 2 else 'clone()'}"


@op("aten.unsqueeze.default")
def unsqueeze(e: Emitter, a: Args) -> str:
    return f"{e.receiver(a['self'])}.unsqueeze({axis(a['dim'], e.meta(a['self']).rank + 1)})?"


def _squeeze(e: Emitter, a: Args, dims: list[int]) -> str:
    shape = e.meta(a["self"]).shape
    text = e.receiver(a["self"])
    for dim in sorted((d for d in dims if shape[d] == 1), reverse=True):
        text += f".squeeze({dim})?"
    return text if text.endswith("?") else f"{text}.clone()"


@op("aten.squeeze.dim", "aten.squeeze.dims")
def squeeze(e: Emitter, a: Args) -> str:
    return _squeeze(e, a, axes(e, a["self"], a["dim"]))


@op("aten.squeeze.default")
def squeeze_all(e: Emitter, a: Args) -> str:
    return _squeeze(e, a, list(range(e.meta(a["self"]).rank)))


@op("aten.expand.default")
def expand(e: Emitter, a: Args) -> str:
    a["size"], a["implicit"]
    before, after = e.meta(a["self"]).shape, a.output.shape
    grown = [1] * (len(after) - len(before)) + list(before)
    words = [
        e.size(new, "repeat" if old == 1 and new != 1 else "size")
        for old, new in zip(grown, after, strict=True)
    ]
    return f"{e.receiver(a['self'])}.broadcast_as({e.tuple(words)})?"


@op("aten.cat.default")
def cat(e: Emitter, a: Args) -> str:
    parts = [part for part in a["tensors"] if e.meta(part).shape != (0,) or a.output.rank == 1]
    words = [cast(e, part, a.output.dtype) for part in parts]
    return f"Tensor::cat(&[{', '.join(words)}], {axis(a['dim'], a.output.rank)})?"


@op("aten.stack.default")
def stack(e: Emitter, a: Args) -> str:
    words = [cast(e, part, a.output.dtype) for part in a["tensors"]]
    return f"Tensor::stack(&[{', '.join(words)}], {axis(a['dim'], a.output.rank)})?"


def _pieces(e: Emitter, a: Args, dim: int) -> list[str]:
    """One `narrow` for each output, from the sizes that the outputs have."""
    named(e, a["self"])
    source = e.receiver(a["self"])
    offset: g.Dim = 0
    texts = []
    for meta in a.node.outputs:
        assert meta is not None
        size = meta.shape[dim]
        if isinstance(size, g.Sym) or isinstance(offset, g.Sym):
            raise Unsupported("the pieces have free sizes")
        start = "0" if offset == 0 else e.slot(offset, "offset")
        texts.append(f"{source}.narrow({dim}, {start}, {e.size(size, 'size')})?")
        offset += size
    return texts


@op(
    "aten.split.Tensor",
    "aten.unsafe_split.Tensor",
    "aten.split_with_sizes.default",
)
def split(e: Emitter, a: Args) -> list[str]:
    for name in ("split_size", "split_sizes"):
        if name in a.values:
            a[name]
    return _pieces(e, a, axis(a["dim"], e.meta(a["self"]).rank))


@op("aten.unbind.int")
def unbind(e: Emitter, a: Args) -> list[str]:
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    named(e, a["self"])
    return [f"ops::select({e.ref(a['self'])}, {dim}, {i})?" for i in range(len(a.node.outputs))]


@op("aten.roll.default")
def roll(e: Emitter, a: Args) -> str:
    shifts = ", ".join(number(e, shift, "shift", "i64") for shift in a["shifts"])
    dims = axes(e, a["self"], a["dims"]) if a["dims"] else []
    return f"ops::roll({e.ref(a['self'])}, &[{shifts}], &{dims})?"


@op("aten.diagonal.default")
def diagonal(e: Emitter, a: Args) -> str:
    rank = e.meta(a["self"]).rank
    dims = f"{axis(a['dim1'], rank)}, {axis(a['dim2'], rank)}"
    return f"ops::diagonal({e.ref(a['self'])}, {number(e, a['offset'], 'diagonal', 'i64')}, {dims})?"


@op("aten.repeat_interleave.self_int")
def repeat_interleave(e: Emitter, a: Args) -> str:
    a["output_size"]
    if a["dim"] is None:
        return f"ops::repeat_interleave(&{e.receiver(a['self'])}.flatten_all()?, {e.size(a['repeats'])}, 0)?"
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    return f"ops::repeat_interleave({e.ref(a['self'])}, {e.size(a['repeats'])}, {dim})?"


@op("aten.unfold.default")
def unfold(e: Emitter, a: Args) -> str:
    dim = axis(a["dimension"], e.meta(a["self"]).rank)
    return f"{e.receiver(a['self'])}.unfold({dim}, {e.size(a['size'])}, {e.size(a['step'])})?"
