"""Elements put where masks, flat positions, rows or diagonals say, and views with strides of their own."""

from __future__ import annotations

from functools import partial

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, call
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import axis, dtype_word, number, operand
from torchport.targets.candle.ops.index import gathering
from torchport.targets.candle.registry import op, register, rows

rows(
    {
        "aten.masked_scatter.default": "ops::masked_scatter({self}, {mask}, {source})?",
        "aten.put.default": "ops::put({self}, {index}, {source}, {accumulate:bool})?",
        "aten.take.default": "ops::take({self}, {index})?",
        "aten.nonzero_static.default": "ops::nonzero_static({self}, {size:usize}, {fill_value:f64})?",
        "aten._pdist_forward.default": "ops::pdist({self}, {p:f64})?",
        "aten.renorm.default": "ops::renorm({self}, {p:f64}, {dim:axis}, {maxnorm:f64})?",
    }
)


@op("aten.index_reduce.default")
def index_reduce(e: Emitter, a: Args) -> Code:
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    tensors = e.ref(a["index"]), e.ref(a["source"])
    how = gathering(a["reduce"]), a["include_self"]
    return call("ops::index_reduce", e.ref(a["self"]), dim, *tensors, *how)


@op("aten.scatter.reduce", "aten.scatter.value_reduce")
def scatter_reduce(e: Emitter, a: Args) -> Code:
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    source = a.get("src")
    if source is None:
        number_ = operand(e, a["value"], a.output.dtype, like=a["self"]).removeprefix("&")
        source = number_.method("broadcast_as", e.shape(e.meta(a["index"]).shape)).borrowed
    else:
        source = e.ref(source)
    how = gathering(a["reduce"]), True
    return call("ops::scatter_reduce", e.ref(a["self"]), dim, e.ref(a["index"]), source, *how)


@op("aten.diagonal_scatter.default")
def diagonal_scatter(e: Emitter, a: Args) -> Code:
    rank = e.meta(a["self"]).rank
    dims = axis(a["dim1"], rank), axis(a["dim2"], rank)
    offset = number(e, a["offset"], "diagonal", "i64")
    return call("ops::diagonal_scatter", e.ref(a["self"]), e.ref(a["src"]), offset, *dims)


def _triangle(e: Emitter, a: Args, upper: bool) -> Code:
    sizes = [e.size(a[name]) for name in ("row", "col")]
    offset = number(e, a["offset"], "diagonal", "i64")
    a.ignore("dtype")
    found = call("ops::triangle_indices", *sizes, offset, upper, e.device())
    if a.output.dtype == "int64":
        return found
    return call("ops::to_dtype", found.borrowed, dtype_word(a.output.dtype))


for _name in ("tril", "triu"):
    register(f"aten.{_name}_indices.default", partial(_triangle, upper=_name == "triu"))
