"""Reading and writing parts of a tensor."""

from __future__ import annotations

import sys

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.emit import Emitter, Unsupported
from torchport.targets.candle.registry import Args, axis, op, rows, used

rows(
    {
        "aten.gather.default": "ops::gather({self}, {dim:axis}, {index})?",
        "aten.index_select.default": "ops::index_select({self}, {dim:axis}, {index})?",
        "aten.scatter.src": "ops::scatter({self}, {dim:axis}, {index}, {src})?",
        "aten.scatter.value": "ops::scatter_value({self}, {dim:axis}, {index}, {value:f64})?",
        "aten.scatter_add.default": "ops::scatter_add({self}, {dim:axis}, {index}, {src})?",
        "aten.one_hot.default": "ops::one_hot({self}, {num_classes:usize})?",
        "aten.select_scatter.default": "ops::select_scatter({self}, {src}, {dim:axis}, {index:i64})?",
    }
)


@op("aten.embedding.default")
def embedding(e: Emitter, a: Args) -> str:
    for name in ("padding_idx", "scale_grad_by_freq", "sparse"):
        a[name]  # only gradients look at these
    return f"ops::embedding({e.ref(a['weight'])}, {e.ref(a['indices'])})?"


_BAGS = ("Sum", "Mean", "Max")


@op("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(e: Emitter, a: Args) -> list[str]:
    if any(used(a, e, index) for index in (1, 2, 3)):
        raise Unsupported("what it keeps for gradients is read")
    a["scale_grad_by_freq"], a["sparse"]
    tensors = ", ".join(e.ref(a[name]) for name in ("weight", "indices", "offsets"))
    factors = "None" if a["per_sample_weights"] is None else f"Some({e.ref(a['per_sample_weights'])})"
    padding = "None" if a["padding_idx"] < 0 else f"Some({a['padding_idx']})"
    last = "true" if a["include_last_offset"] else "false"
    bag = f"ops::Bag::{_BAGS[a['mode']]}"
    return [f"ops::embedding_bag({tensors}, {bag}, {factors}, {padding}, {last})?"]


def _bounds(e: Emitter, a: Args) -> tuple[int, str, str, str]:
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    start, end = a["start"], a["end"]
    first = _bound(e, 0 if start is None else start)
    last = "i64::MAX" if end is None or end == sys.maxsize else _bound(e, end)
    return dim, first, last, e.size(a["step"], None)


def _bound(e: Emitter, value: g.Dim) -> str:
    if isinstance(value, g.Sym):
        text = e.size(value)
        return f"{text} as i64" if text.isidentifier() else f"({text}) as i64"
    return e.slot(value, "bound", "i64")


@op("aten.slice.Tensor")
def slice_(e: Emitter, a: Args) -> str:
    source, result = e.meta(a["self"]).shape, a.output.shape
    dim = axis(a["dim"], len(source))
    start, end, size = a["start"] or 0, a["end"], result[dim]
    simple = a["step"] == 1 and not isinstance(start, g.Sym) and start >= 0
    full = source[dim]
    if simple and isinstance(full, int) and isinstance(size, int) and start <= full:
        a["step"]
        first = "0" if start == 0 else e.slot(start, "offset")
        return f"{e.receiver(a['self'])}.narrow({dim}, {first}, {e.size(size)})?"
    if simple and start == 0 and isinstance(size, g.Sym) and size == end:
        return f"{e.receiver(a['self'])}.narrow({dim}, 0, {e.size(size)})?"
    dim, first, last, step = _bounds(e, a)
    return f"ops::slice({e.ref(a['self'])}, {dim}, {first}, {last}, {step})?"


@op("aten.slice_scatter.default")
def slice_scatter(e: Emitter, a: Args) -> str:
    dim, first, last, step = _bounds(e, a)
    return f"ops::slice_scatter({e.ref(a['self'])}, {e.ref(a['src'])}, {dim}, {first}, {last}, {step})?"


@op("aten.select.int")
def select(e: Emitter, a: Args) -> str:
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    index = a["index"]
    text = _bound(e, index) if isinstance(index, g.Sym) or index > 0 else str(index)
    return f"ops::select({e.ref(a['self'])}, {dim}, {text})?"


def _indices(e: Emitter, indices: list[g.Ref | None]) -> str:
    words = ["None" if index is None else f"Some({e.ref(index)})" for index in indices]
    return f"&[{', '.join(words)}]"


@op("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(e: Emitter, a: Args) -> str:
    if any(i is not None and e.meta(i).dtype in ("bool", "uint8") for i in a["indices"]):
        raise Unsupported("indexing by a mask gives a size that depends on the data")
    return f"ops::index({e.ref(a['self'])}, {_indices(e, a['indices'])})?"


@op("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(e: Emitter, a: Args) -> str:
    accumulate = "true" if a["accumulate"] else "false"
    places = _indices(e, a["indices"])
    return f"ops::index_put({e.ref(a['self'])}, {places}, {e.ref(a['values'])}, {accumulate})?"


_GATHERINGS = {"sum": "Sum", "prod": "Product", "mean": "Mean", "amax": "Max", "amin": "Min"}


@op("aten.scatter_reduce.two")
def scatter_reduce(e: Emitter, a: Args) -> str:
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    tensors = f"{e.ref(a['self'])}, {dim}, {e.ref(a['index'])}, {e.ref(a['src'])}"
    include = "true" if a["include_self"] else "false"
    return f"ops::scatter_reduce({tensors}, ops::Gathering::{_GATHERINGS[a['reduce']]}, {include})?"


@op("aten.searchsorted.Tensor")
def searchsorted(e: Emitter, a: Args) -> str:
    if a["sorter"] is not None:
        raise Unsupported("the order of the elements is given apart")
    return _place(e, a, a["sorted_sequence"], a["self"], a["right"] or a["side"] == "right")


@op("aten.bucketize.Tensor")
def bucketize(e: Emitter, a: Args) -> str:
    return _place(e, a, a["boundaries"], a["self"], a["right"])


def _place(e: Emitter, a: Args, among: g.Ref, values: g.Ref, right: bool) -> str:
    text = f"ops::searchsorted({e.ref(among)}, {e.ref(values)}, {'true' if right else 'false'})?"
    return f"ops::to_dtype(&{text}, DType::I32)?" if a["out_int32"] else text


_PAD_MODES = {"reflect": "Reflect", "replicate": "Replicate", "circular": "Circular"}


@op("aten.pad.default", "aten.constant_pad_nd.default")
def pad(e: Emitter, a: Args) -> str:
    mode = a["mode"] if "mode" in a.values else "constant"
    value = a["value"]
    if mode == "constant":
        word = f"ops::PadMode::Constant({rust.float_literal(float(value or 0.0))})"
    else:
        word = f"ops::PadMode::{_PAD_MODES[mode]}"
    widths = a["pad"]
    if not all(isinstance(width, int) for width in widths):
        raise Unsupported("its widths depend on free sizes")
    words = ", ".join(e.slot(width, "pad", "i64") for width in widths)
    return f"ops::pad({e.ref(a['self'])}, &[{words}], {word})?"


def _pad_rows(kind: str, mode: str) -> None:
    for rank in (1, 2, 3):
        name = f"aten.{kind}_pad{rank}d.default"

        @op(name)
        def emit(e: Emitter, a: Args) -> str:
            if not all(isinstance(width, int) for width in a["padding"]):
                raise Unsupported("its widths depend on free sizes")
            words = ", ".join(e.slot(width, "pad", "i64") for width in a["padding"])
            return f"ops::pad({e.ref(a['self'])}, &[{words}], ops::PadMode::{mode})?"


_pad_rows("reflection", "Reflect")
_pad_rows("replication", "Replicate")
