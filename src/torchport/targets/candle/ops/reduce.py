"""Operations that fold axes away, and those that run along one."""

from __future__ import annotations

from functools import partial

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, call, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import axes, axis, cast, dtype_word
from torchport.targets.candle.registry import Several, op, register, rows

rows(
    {
        "aten.softmax.int": "ops::softmax({self}, {dim:axis})?",
        "aten._softmax.default": "ops::softmax({self}, {dim:axis})?",
        "aten.log_softmax.int": "ops::log_softmax({self}, {dim:axis})?",
        "aten._log_softmax.default": "ops::log_softmax({self}, {dim:axis})?",
        "aten.logsumexp.default": "ops::logsumexp({self}, {dim:axes}, {keepdim:bool})?",
    },
    promote=True,
)
rows(
    {
        "aten.amax.default": "ops::amax({self}, {dim:axes}, {keepdim:bool})?",
        "aten.amin.default": "ops::amin({self}, {dim:axes}, {keepdim:bool})?",
        "aten.any.dim": "ops::any({self}, {dim:axes}, {keepdim:bool})?",
        "aten.all.dim": "ops::all({self}, {dim:axes}, {keepdim:bool})?",
    }
)


def _fold(e: Emitter, a: Args, name: str) -> Code:
    """`self` folded along `dim`, or along all axes if the operation has no `dim`."""
    a.ignore("dtype")
    dims = axes(e, a["self"], a.get("dim"))
    keep = a.get("keepdim", False)
    folded = call(f"ops::{name}", cast(e, a["self"], a.output.dtype), slice_of(dims), keep)
    return _as_wide(folded, name, a.output.dtype)


def _as_wide(value: Code, name: str, dtype: str) -> Code:
    """The value in the dtype of the result: sums and products of integers come as i64 from the runtime crate."""
    if name in ("amax", "amin") or dtype in (*g.FLOATS, "int64"):
        return value
    return call("ops::to_dtype", value.borrowed, dtype_word(dtype))


for _name, _ops in {
    "sum": ("sum.dim_IntList", "sum.default"),
    "mean": ("mean.dim", "mean.default"),
    "prod": ("prod.default", "prod.dim_int"),
    "amax": ("max.default",),
    "amin": ("min.default",),
}.items():
    for _op in _ops:
        register(f"aten.{_op}", partial(_fold, name=_name))


def _running(e: Emitter, a: Args, name: str) -> Code:
    a.ignore("dtype")
    dim = axis(a["dim"], e.meta(a["self"]).rank)
    return _as_wide(call(f"ops::{name}", cast(e, a["self"], a.output.dtype), dim), name, a.output.dtype)


for _name in ("cumsum", "cumprod"):
    register(f"aten.{_name}.default", partial(_running, name=_name))


def _of_all(e: Emitter, a: Args, name: str) -> Code:
    return call(f"ops::{name}", e.ref(a["self"]), slice_of(axes(e, a["self"], None)), False)


def _of_some(e: Emitter, a: Args, name: str) -> Code:
    """Over the axes that are listed; other than for sums, an empty list means no axis."""
    dims = [] if a["dim"] == [] else axes(e, a["self"], a["dim"])
    return call(f"ops::{name}", e.ref(a["self"]), slice_of(dims), a["keepdim"])


for _name in ("any", "all"):
    register(f"aten.{_name}.default", partial(_of_all, name=_name))
    register(f"aten.{_name}.dims", partial(_of_some, name=_name))


def _spread(e: Emitter, a: Args, name: str) -> Code:
    correction = 1.0 if a["correction"] is None else float(a["correction"])
    dims = slice_of(axes(e, a["self"], a["dim"]))
    return call(f"ops::{name}", e.ref(a["self"]), dims, rust.float_literal(correction), a["keepdim"])


def _spread_and_mean(e: Emitter, a: Args, name: str) -> Several:
    return Several(_spread(e, a, name))


for _name in ("var", "std"):
    register(f"aten.{_name}.correction", partial(_spread, name=_name))
    register(f"aten.{_name}_mean.correction", partial(_spread_and_mean, name=f"{_name}_mean"))


@op("aten.linalg_vector_norm.default")
def vector_norm(e: Emitter, a: Args) -> Code:
    a.ignore("dtype")
    return _norm(e, a, a["ord"])


@op("aten.norm.ScalarOpt_dim")
def norm(e: Emitter, a: Args) -> Code:
    return _norm(e, a, 2 if a["p"] is None else a["p"])


def _norm(e: Emitter, a: Args, order: float) -> Code:
    x = cast(e, a["self"], a.output.dtype)
    dims = slice_of(axes(e, a["self"], a["dim"]))
    return call("ops::norm", x, rust.float_literal(float(order)), dims, a["keepdim"])


def _first_axis(e: Emitter, a: Args) -> int:
    """The axis that `dim` names, or the first if it names none."""
    return axes(e, a["self"], a["dim"])[0]


def _along(e: Emitter, a: Args, name: str) -> Several:
    return Several(call(f"ops::{name}", e.ref(a["self"]), _first_axis(e, a), a["keepdim"]))


for _name in ("max", "min"):
    register(f"aten.{_name}.dim", partial(_along, name=f"{_name}_dim"))


def _sorted(e: Emitter, a: Args, name: str) -> Code:
    a.ignore("stable")  # a stable order is right in both cases
    return call(f"ops::{name}", e.ref(a["self"]), _first_axis(e, a), a["descending"])


@op("aten.sort.default", "aten.sort.stable")
def sort(e: Emitter, a: Args) -> Several:
    return Several(_sorted(e, a, "sort"))


@op("aten.argsort.default", "aten.argsort.stable")
def argsort(e: Emitter, a: Args) -> Code:
    return _sorted(e, a, "argsort")


@op("aten.topk.default")
def topk(e: Emitter, a: Args) -> Several:
    k = e.size(a["k"], "k")
    return Several(call("ops::topk", e.ref(a["self"]), k, _first_axis(e, a), a["largest"], a["sorted"]))


def _arg_extreme(e: Emitter, a: Args, name: str) -> Code:
    """The position of the largest or smallest element; without `dim`, its position among all elements."""
    keep = a["keepdim"]
    if a["dim"] is not None:
        return call(f"ops::{name}", e.ref(a["self"]), _first_axis(e, a), keep)
    position = call(f"ops::{name}", e.receiver(a["self"]).method("flatten_all").borrowed, 0, False)
    return position.method("reshape", e.shape(a.output.shape)) if a.output.rank else position


for _name in ("argmax", "argmin"):
    register(f"aten.{_name}.default", partial(_arg_extreme, name=_name))


@op("aten.diff.default")
def diff(e: Emitter, a: Args) -> Code:
    dim = _first_axis(e, a)
    pieces: list[g.Ref] = [piece for piece in (a["prepend"], a["self"], a["append"]) if piece is not None]
    value = e.ref(pieces[0])
    if len(pieces) > 1:
        value = call("Tensor::cat", slice_of([e.ref(piece) for piece in pieces]), dim).borrowed
    # The runtime crate takes u8 for bools, whose difference is whether they differ.
    wraps = e.meta(a["self"]).dtype == "uint8"
    if wraps:
        value = call("ops::to_dtype", value, "DType::I64").borrowed
    for _ in range(a["n"]):
        value = call("ops::diff", value, dim).borrowed
    if wraps:
        return call("ops::to_dtype", value, "DType::U8")
    if len(pieces) == 1 and a["n"] == 0:
        return e.receiver(a["self"]).cloned
    return value.removeprefix("&")
