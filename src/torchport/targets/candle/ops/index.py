"""Reading and writing parts of a tensor."""

from __future__ import annotations

import sys
from functools import partial

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, Piece, call, optional, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import axis, is_read, number, operand, part
from torchport.targets.candle.registry import op, register, rows
from torchport.targets.candle.sizes import may_be_negative

rows(
    {
        "aten.gather.default": "ops::gather({self}, {dim:axis}, {index})?",
        "aten.index_select.default": "ops::index_select({self}, {dim:axis}, {index})?",
        "aten.scatter.src": "ops::scatter({self}, {dim:axis}, {index}, {src})?",
        "aten.scatter.value": "ops::scatter_value({self}, {dim:axis}, {index}, {value:f64})?",
        "aten.embedding_renorm.default": "ops::embedding_renorm({self}, {indices}, {max_norm:f64}, {norm_type:f64})?",
        "aten.one_hot.default": "ops::one_hot({self}, {num_classes:usize})?",
        "aten.select_scatter.default": "ops::select_scatter({self}, {src}, {dim:axis}, {index:i64})?",
    }
)


@op("aten.embedding.default")
def embedding(e: Emitter, a: Args) -> Code:
    a.ignore("padding_idx", "scale_grad_by_freq", "sparse")  # only gradients depend on these
    return call("ops::embedding", e.ref(a["weight"]), e.ref(a["indices"]))


_BAGS = ("Sum", "Mean", "Max")


@op("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(e: Emitter, a: Args) -> list[Code]:
    if any(is_read(e, a, index) for index in (1, 2, 3)):
        raise Unsupported("what it keeps for gradients is read")
    a.ignore("scale_grad_by_freq", "sparse")
    tensors = [e.ref(a[name]) for name in ("weight", "indices", "offsets")]
    factors = e.optional_ref(a["per_sample_weights"])
    padding = optional(None if a["padding_idx"] < 0 else a["padding_idx"])
    bag = f"ops::Bag::{_BAGS[a['mode']]}"
    return [call("ops::embedding_bag", *tensors, bag, factors, padding, a["include_last_offset"])]


def _bounds(e: Emitter, a: Args) -> tuple[Piece, Piece, Piece, Piece]:
    """Axis, start, end and step of a slice."""
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    start, end = a["start"], a["end"]
    first = _bound(e, 0 if start is None else start)
    last = "i64::MAX" if end is None or end == sys.maxsize else _bound(e, end)
    return dim, first, last, e.size(a["step"], None)


def _bound(e: Emitter, value: g.Dim) -> Code:
    return number(e, value, "bound", "i64")


@op("aten.slice.Tensor")
def slice_(e: Emitter, a: Args) -> Code:
    source, result = e.meta(a["self"]).shape, a.output.shape
    dim = axis(a["dim"], len(source))
    start, end, size = a["start"] or 0, a["end"], result[dim]
    simple = a["step"] == 1 and not isinstance(start, g.Sym) and start >= 0
    full = source[dim]
    if simple and isinstance(full, int) and isinstance(size, int) and start <= full:
        first = 0 if start == 0 else e.slot(start, "offset")
        return part(e, a["self"], dim, first, size)
    is_up_to_a_size = isinstance(size, g.Sym) and size == end and not may_be_negative(size.expr)
    if simple and start == 0 and is_up_to_a_size:
        return e.receiver(a["self"]).method("narrow", dim, 0, e.size(size))
    bounds = _bounds(e, a)
    return call("ops::slice", e.ref(a["self"]), *bounds)


@op("aten.slice_scatter.default")
def slice_scatter(e: Emitter, a: Args) -> Code:
    bounds = _bounds(e, a)
    return call("ops::slice_scatter", e.ref(a["self"]), e.ref(a["src"]), *bounds)


@op("aten.select.int")
def select(e: Emitter, a: Args) -> Code:
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    index = a["index"]
    place = _bound(e, index) if isinstance(index, g.Sym) or index > 0 else index
    return call("ops::select", e.ref(a["self"]), dim, place)


def _indices(e: Emitter, indices: list[g.Ref | None]) -> Code:
    return slice_of([e.optional_ref(index) for index in indices])


@op("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(e: Emitter, a: Args) -> Code:
    return call("ops::index", e.ref(a["self"]), _indices(e, a["indices"]))


@op("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(e: Emitter, a: Args) -> Code:
    if a["accumulate"]:
        _must_not_be_bool(e, a["self"])
    places = _indices(e, a["indices"])
    return call("ops::index_put", e.ref(a["self"]), places, e.ref(a["values"]), a["accumulate"])


def _must_not_be_bool(e: Emitter, arg: g.Ref) -> None:
    """Raises for sums of bools, which stay bools in torch; the runtime crate would count."""
    if e.meta(arg).dtype == "bool":
        raise Unsupported("bools are added up")


@op("aten.scatter_add.default")
def scatter_add(e: Emitter, a: Args) -> Code:
    _must_not_be_bool(e, a["self"])
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    return call("ops::scatter_add", e.ref(a["self"]), dim, e.ref(a["index"]), e.ref(a["src"]))


_GATHERINGS = {
    "add": "Sum",
    "multiply": "Product",
    "sum": "Sum",
    "prod": "Product",
    "mean": "Mean",
    "amax": "Max",
    "amin": "Min",
}


def gathering(name: str) -> str:
    """The runtime crate's word for what becomes of elements that fall on one place."""
    return f"ops::Gathering::{_GATHERINGS[name]}"


@op("aten.scatter_reduce.two")
def scatter_reduce(e: Emitter, a: Args) -> Code:
    _must_not_be_bool(e, a["self"])
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    x, index, source = e.ref(a["self"]), e.ref(a["index"]), e.ref(a["src"])
    return call("ops::scatter_reduce", x, dim, index, source, gathering(a["reduce"]), a["include_self"])


@op("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(e: Emitter, a: Args) -> Code:
    among, right = a["sorted_sequence"], a["right"] or a["side"] == "right"
    if a["sorter"] is None:
        return _place(e, a, among, e.ref(among), a["self"], right)
    last = e.meta(among).rank - 1
    ordered = call("ops::gather", e.ref(among), last, e.ref(a["sorter"])).borrowed
    return _place(e, a, among, ordered, a["self"], right)


@op("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(e: Emitter, a: Args) -> Code:
    return _place(e, a, a["boundaries"], e.ref(a["boundaries"]), a["self"], a["right"])


def _place(e: Emitter, a: Args, among: g.Ref, ordered: Code, values: g.Arg, right: bool) -> Code:
    """The positions at which values would be put into a sorted tensor."""
    dtype = e.meta(among).dtype
    if isinstance(values, float) and dtype not in g.FLOATS:
        raise Unsupported(f"the number {values} is sought among whole numbers")
    places = call("ops::searchsorted", ordered, operand(e, values, dtype, like=among), right)
    return call("ops::to_dtype", places.borrowed, "DType::I32") if a["out_int32"] else places


_PAD_MODES = {"reflect": "Reflect", "replicate": "Replicate", "circular": "Circular"}


@op("aten.pad.default", "aten.constant_pad_nd.default")
def pad(e: Emitter, a: Args) -> Code:
    mode = a.get("mode", "constant")
    value = a["value"]
    if mode == "constant":
        return _padded(e, a, "pad", f"Constant({rust.float_literal(float(value or 0.0))})")
    return _padded(e, a, "pad", _PAD_MODES[mode])


def _padded(e: Emitter, a: Args, widths: str, mode: str) -> Code:
    """`self` padded by the widths in an argument."""
    words = slice_of([number(e, width, "pad", "i64") for width in a[widths]])
    return call("ops::pad", e.ref(a["self"]), words, f"ops::PadMode::{mode}")


for _kind, _mode in (("reflection", "Reflect"), ("replication", "Replicate")):
    for _rank in (1, 2, 3):
        register(f"aten.{_kind}_pad{_rank}d.default", partial(_padded, widths="padding", mode=_mode))
