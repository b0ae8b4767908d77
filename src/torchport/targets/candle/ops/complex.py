"""Complex numbers, which are pairs of floats in Rust: the last axis of a tensor has the real and imaginary parts.

Three kinds of operations: those that make or read pairs, those that compute with them, and those that only move
numbers, which are written as for real tensors with one axis more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, call, code, slice_of
from torchport.targets.candle.emit import PAIRS, Emitter, as_pairs
from torchport.targets.candle.operands import dtype_word, number
from torchport.targets.candle.registry import OF_COMPLEX, OPS, OpFunction, Several, of_complex, op


def _dtype(a: Args) -> str:
    """The dtype of the parts of the result."""
    return dtype_word(PAIRS.get(a.output.dtype, a.output.dtype))


# what makes and reads pairs


@op("aten.view_as_real.default", "aten.view_as_complex.default")
def same_pairs(e: Emitter, a: Args) -> Code:
    value = e.receiver(a["self"])
    return value if value.endswith("?") else value.cloned


@op("aten.complex.default")
def complex_(e: Emitter, a: Args) -> Code:
    return call("ops::complex", e.ref(a["real"]), e.ref(a["imag"]))


@op("aten.polar.default")
def polar(e: Emitter, a: Args) -> Code:
    return call("ops::polar", e.ref(a["abs"]), e.ref(a["angle"]))


_SCALES = ("None", "RootOfLength", "Length")


def _transform(e: Emitter, a: Args, name: str, *more: Any) -> Code:
    rank = e.meta(a["self"]).rank - (a["self"] in e.complex)
    dims = slice_of(dim % rank for dim in a["dim"])
    return call(f"ops::{name}", e.ref(a["self"]), dims, f"ops::Scale::{_SCALES[a['normalization']]}", *more)


@op("aten._fft_r2c.default")
def fft_r2c(e: Emitter, a: Args) -> Code:
    return _transform(e, a, "fft_of_real", a["onesided"])


@op("aten._fft_c2r.default")
def fft_c2r(e: Emitter, a: Args) -> Code:
    return _transform(e, a, "fft_to_real", e.size(a["last_dim_size"], "length"))


@op("aten.fft_fftfreq.default", "aten.fft_rfftfreq.default")
def frequencies(e: Emitter, a: Args) -> Code:
    a.ignore("dtype")
    spacing = number(e, a["d"], "spacing")
    words = dtype_word(a.output.dtype), e.device()
    return call("ops::fft_frequencies", e.size(a["n"], "length"), spacing, "rfftfreq" in a.node.op, *words)


@op("aten._fft_c2c.default")
def fft_c2c(e: Emitter, a: Args) -> Code:
    return _transform(e, a, "fft", a["forward"])


# what computes with them


def _as_complex(e: Emitter, a: Args, arg: g.Arg, like: g.Ref) -> Code:
    """An operand as a `&Tensor` of pairs of the result's dtype."""
    dtype = _dtype(a)
    if not isinstance(arg, g.Ref):
        if isinstance(arg, g.Sym):
            raise Unsupported("a free size among complex numbers")
        value = complex(arg)
        parts = slice_of([rust.float_literal(value.real), rust.float_literal(value.imag)])
        pair = code("Tensor::new({}, {})?", parts, e.device_of(like))
        return call("ops::to_dtype", pair.borrowed, dtype).borrowed
    if arg not in e.complex:
        return call("ops::to_complex", e.ref(arg), dtype).borrowed
    if dtype == dtype_word(e.meta(arg).dtype):
        return e.ref(arg)
    return call("ops::to_dtype", e.ref(arg), dtype).borrowed


def _pair_of_operands(e: Emitter, a: Args, left: str = "self", right: str = "other") -> tuple[Code, Code]:
    x, y = a[left], a[right]
    like = x if isinstance(x, g.Ref) else y
    if not (isinstance(x, g.Ref) and isinstance(y, g.Ref)):
        e.name_if_expression(like)
    return _as_complex(e, a, x, like), _as_complex(e, a, y, like)


def _sum(e: Emitter, a: Args) -> Code:
    x, y = _pair_of_operands(e, a)
    if a["alpha"] != 1:
        if isinstance(a["alpha"], complex):
            raise Unsupported(f"alpha={a['alpha']} is complex")
        y = call("ops::mul_scalar", y, rust.float_literal(float(a["alpha"]))).borrowed
    return call(f"ops::{a.node.op.split('.')[1]}", x, y)


of_complex("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")(_sum)


@of_complex("aten.rsub.Scalar")
def difference(e: Emitter, a: Args) -> Code:
    if a["alpha"] != 1:
        raise Unsupported(f"alpha={a['alpha']} among complex numbers")
    x, y = _pair_of_operands(e, a)
    return call("ops::sub", y, x)


@of_complex("aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor", "aten.div.Scalar")
def product(e: Emitter, a: Args) -> Code:
    """By a real number or tensor part by part, and otherwise by complex arithmetic."""
    name, x, y = a.node.op.split(".")[1], a["self"], a["other"]
    if isinstance(y, int | float):
        return call(f"ops::{name}_scalar", _as_complex(e, a, x, x), rust.float_literal(float(y)))
    if name == "mul" and x not in e.complex and isinstance(x, g.Ref):
        x, y = y, x
    if isinstance(y, g.Ref) and y not in e.complex and x in e.complex:
        part = e.receiver(y).method("unsqueeze", e.meta(y).rank).borrowed
        part = call("ops::to_dtype", part, _dtype(a)).borrowed
        return call(f"ops::{name}", _as_complex(e, a, x, x), part)
    return call(f"ops::complex_{name}", *_pair_of_operands(e, a))


@of_complex("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power(e: Emitter, a: Args) -> Code:
    if a["exponent"] == 2:
        return call("ops::complex_square", e.ref(a["self"]))
    return call("ops::complex_pow", *_pair_of_operands(e, a, right="exponent"))


_UNARY = ("exp", "log", "sqrt", "reciprocal", "sin", "cos", "abs", "angle")
for _name in _UNARY:
    of_complex(f"aten.{_name}.default")(
        lambda e, a, name=_name: call(f"ops::complex_{name}", e.ref(a["self"]))
    )
of_complex("aten.neg.default")(lambda e, a: call("ops::neg", e.ref(a["self"])))


@of_complex("aten._conj.default", "aten._conj_physical.default", "aten.conj_physical.default")
@op("aten._conj.default", "aten._conj_physical.default", "aten.conj_physical.default")
def conj(e: Emitter, a: Args) -> Code:
    """A real number is its own conjugate."""
    return call("ops::conj", e.ref(a["self"])) if a["self"] in e.complex else e.receiver(a["self"]).cloned


@op("aten.angle.default")
def angle(e: Emitter, a: Args) -> Code:
    return call("ops::angle", e.ref(a["self"]))


for _name, _right in {"matmul": "other", "mm": "mat2", "bmm": "mat2", "mv": "vec", "dot": "tensor"}.items():
    of_complex(f"aten.{_name}.default")(
        lambda e, a, right=_right: call("ops::complex_matmul", *_pair_of_operands(e, a, right=right))
    )


@of_complex("aten.eq.Tensor", "aten.eq.Scalar", "aten.ne.Tensor", "aten.ne.Scalar")
def equal(e: Emitter, a: Args) -> Code:
    known = a["self"] if a["self"] in e.complex else a["other"]
    typed = Args(replace(a.node, outputs=(g.TensorMeta((), e.meta(known).dtype),)))
    same = call("ops::complex_eq", *_pair_of_operands(e, typed))
    a.ignore("self", "other")
    return same if ".eq." in a.node.op else call("ops::logical_not", same.borrowed)


@of_complex("aten._to_copy.default", "aten.clone.default", "aten.to.dtype")
def to_copy(e: Emitter, a: Args) -> Code:
    a.ignore("dtype", "copy")
    if a.output.dtype not in PAIRS:
        raise Unsupported("the imaginary parts are dropped")
    value = _as_complex(e, a, a["self"], a["self"])
    return value.removeprefix("&") if value.endswith("?") else e.receiver(a["self"]).cloned


@of_complex("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther")
def where(e: Emitter, a: Args) -> Code:
    condition = e.receiver(a["condition"]).method("unsqueeze", e.meta(a["condition"]).rank).borrowed
    return call("ops::where_cond", condition, *_pair_of_operands(e, a))


@of_complex("aten.prod.dim_int")
def prod(e: Emitter, a: Args) -> Code:
    rank = e.meta(a["self"]).rank - 1
    folded = call("ops::complex_prod", e.ref(a["self"]), a["dim"] % rank)
    return folded.method("unsqueeze", a["dim"] % rank) if a["keepdim"] else folded


@of_complex("aten.isnan.default", "aten.isinf.default")
def any_part(e: Emitter, a: Args) -> Code:
    parts = call(f"ops::{a.node.op.split('.')[1]}", e.ref(a["self"]))
    return call("ops::any", parts.borrowed, slice_of([e.meta(a["self"]).rank - 1]), False)


# what only moves them

_AXES = frozenset({"dim", "dims", "dim0", "dim1", "dim2", "dimension"})
_MOVES = """
    reshape permute transpose.int t unsqueeze squeeze squeeze.dim squeeze.dims expand cat stack
    split.Tensor unsafe_split.Tensor split_with_sizes unbind.int flip roll slice.Tensor select.int
    narrow_copy repeat index_select index.Tensor sum.dim_IntList sum mean.dim mean cumsum
    diagonal slice_scatter select_scatter diff
    pad constant_pad_nd zeros zeros_like new_zeros empty.memory_format empty_like new_empty copy
"""


def _moved(e: Emitter, a: Args) -> Code | list[Code] | Several:
    """The same operation on tensors with one axis more, the last."""
    node = a.node
    refs = [ref for ref in g.refs([node.args, node.kwargs]) if ref in e.metas]
    if refs and not all(ref in e.complex for ref in refs if e.meta(ref).is_float):
        raise Unsupported("complex numbers and others are put together")
    values = dict(a.values)
    ranks = [e.meta(ref).rank - 1 for ref in refs if ref in e.complex]
    rank = max(ranks, default=0) + (node.op in ("aten.unsqueeze.default", "aten.stack.default"))
    for name in _AXES & values.keys():
        values[name] = _counted(values[name], rank)
    if node.op == "aten.permute.default":
        values["dims"] = [*values["dims"], rank]
    if node.op == "aten.t.default":
        node, values = replace(node, op="aten.transpose.int"), {**values, "dim0": 0, "dim1": max(rank - 1, 0)}
    if node.op in ("aten.sum.default", "aten.mean.default"):
        node = replace(node, op="aten.sum.dim_IntList" if "sum" in node.op else "aten.mean.dim")
        values["dim"] = list(range(rank))
    if node.op == "aten.squeeze.default":
        node, values = replace(node, op="aten.squeeze.dims"), {**values, "dim": list(range(rank))}
    if node.op == "aten.roll.default" and not values["dims"]:
        raise Unsupported("complex numbers are rolled over all axes")
    if "repeats" in values:
        values["repeats"] = [*values["repeats"], 1]
    if values.get("mode", "constant") != "constant":
        raise Unsupported(f"complex numbers are padded by mode={values['mode']!r}")
    if "pad" in values:
        values["pad"] = [0, 0, *values["pad"]]
    values.pop("dtype", None)
    outputs = tuple(None if meta is None else as_pairs(meta) for meta in node.outputs)
    moved = Args(replace(node, args=(), kwargs=values, outputs=outputs))
    result = OPS[node.op](e, moved)
    moved.check_all_read()
    a.ignore(*a.values)
    return result


def _counted(dims: Any, rank: int) -> Any:
    """Axes counted from the first; all axes if none is given."""
    if dims is None or dims == []:
        return list(range(rank))
    return [dim % rank for dim in dims] if isinstance(dims, list) else dims % rank


def _whole(name: str) -> str:
    return f"aten.{name}" if "." in name else f"aten.{name}.default"


_GIVEN: dict[str, OpFunction] = {_whole(name): _moved for name in _MOVES.split()}
OF_COMPLEX.update({name: function for name, function in _GIVEN.items() if name not in OF_COMPLEX})
