"""How often values occur, elements by their rank, and running extremes."""

from __future__ import annotations

from functools import partial

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, call
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import axis, dtype_word
from torchport.targets.candle.registry import Several, op, register, rows

rows(
    {
        "aten.histc.default": "ops::histc({self}, {bins:usize}, {min:f64}, {max:f64})?",
        "aten.logcumsumexp.default": "ops::logcumsumexp({self}, {dim:axis})?",
    }
)


def _pair(e: Emitter, a: Args, name: str) -> Several:
    """An operation along one axis that gives values and their indices."""
    more = [a["keepdim"]] if "keepdim" in a else []
    return Several(call(f"ops::{name}", e.ref(a["self"]), axis(a["dim"], e.meta(a["self"]).rank), *more))


for _name in ("cummax.default", "cummin.default", "median.dim", "nanmedian.dim", "mode.default"):
    register(f"aten.{_name}", partial(_pair, name=_name.partition(".")[0]))


@op("aten.kthvalue.default")
def kthvalue(e: Emitter, a: Args) -> Several:
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    return Several(call("ops::kthvalue", e.ref(a["self"]), e.size(a["k"], "k"), dim, a["keepdim"]))


rows({f"aten.{_name}.default": f"ops::{_name}_of_all({{self}})?" for _name in ("median", "nanmedian")})


@op("aten.repeat_interleave.self_Tensor")
def repeat_each(e: Emitter, a: Args) -> Code:
    a.ignore("output_size")
    if a["dim"] is None:
        flat = e.receiver(a["self"]).method("flatten_all").borrowed
        return call("ops::repeat_each", flat, e.ref(a["repeats"]), 0)
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    return call("ops::repeat_each", e.ref(a["self"]), e.ref(a["repeats"]), dim)


@op("aten.repeat_interleave.Tensor")
def repeated_positions(e: Emitter, a: Args) -> Code:
    a.ignore("output_size")
    places = call("ops::repeated_positions", e.ref(a["repeats"]))
    if a.output.dtype == "int64":
        return places
    return call("ops::to_dtype", places.borrowed, dtype_word(a.output.dtype))


rows(
    {
        "aten.nonzero.default": "ops::nonzero({self})?",
        "aten.masked_select.default": "ops::masked_select({self}, {mask})?",
        "aten.bincount.default": "ops::bincount({self}, {weights:opt}, {minlength:usize})?",
    }
)


@op("aten._unique2.default")
def unique(e: Emitter, a: Args) -> Several:
    a.ignore("sorted", "return_inverse", "return_counts")
    return Several(call("ops::unique", e.ref(a["self"])))


@op("aten.unique_consecutive.default")
def unique_consecutive(e: Emitter, a: Args) -> Several:
    a.ignore("return_inverse", "return_counts")
    if a["dim"] is not None:
        raise Unsupported("rows are compared along an axis")
    return Several(call("ops::unique_consecutive", e.ref(a["self"])))
