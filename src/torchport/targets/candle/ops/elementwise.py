"""Functions of one tensor, activations, choice and conversion."""

from __future__ import annotations

from functools import partial

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, as_code, call, optional, tuple_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import cast, converted, dtype_word, integer, number, part, same_dtype
from torchport.targets.candle.registry import op, register, rows

_FLOAT_UNARY = """
    exp exp2 expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh asinh acosh atanh rsqrt sqrt
    reciprocal sigmoid tanh erf erfc
"""
_SAME_UNARY = """
    relu silu mish hardswish hardsigmoid log_sigmoid floor ceil trunc round sign abs neg logical_not
    isnan isinf isfinite isposinf isneginf signbit
"""

rows({f"aten.{name}.default": f"ops::{name}({{self}})?" for name in _FLOAT_UNARY.split()}, promote=True)
rows({f"aten.{name}.default": f"ops::{name}({{self}})?" for name in _SAME_UNARY.split()})
rows(
    {
        "aten.elu.default": "ops::elu({self}, {alpha:f64}, {scale:f64}, {input_scale:f64})?",
        "aten.leaky_relu.default": "ops::leaky_relu({self}, {negative_slope:f64})?",
        "aten.clamp_min.Tensor": "ops::maximum({self}, {min})?",
        "aten.clamp_max.Tensor": "ops::minimum({self}, {max})?",
        "aten.softplus.default": "ops::softplus({self}, {beta:f64}, {threshold:f64})?",
        "aten.pow.Tensor_Scalar": "ops::pow_scalar({self}, {exponent:f64})?",
        "aten.pow.Scalar": "ops::rpow({self:f64}, {exponent})?",
    },
    promote=True,
)


def _clamp(e: Emitter, a: Args, least: str | None, most: str | None) -> Code:
    """`self` between the bounds in two arguments, either of which may be missing."""
    dtype = a.output.dtype
    bounds = [None if name is None else a[name] for name in (least, most)]
    name = "clamp" if dtype in g.FLOATS else "clamp_int"

    def written(bound: g.Arg, role: str) -> Code:
        if dtype not in g.FLOATS:
            return integer(e, bound, role, dtype)
        return (
            number(e, bound, None) if isinstance(bound, g.Sym) else as_code(rust.float_literal(float(bound)))
        )

    options = [
        optional(None if bound is None else written(bound, role))
        for bound, role in zip(bounds, ("min", "max"), strict=True)
    ]
    return call(f"ops::{name}", cast(e, a["self"], dtype), *options)


for _op, _least, _most in (
    ("hardtanh", "min_val", "max_val"),
    ("clamp", "min", "max"),
    ("clamp_min", "min", None),
    ("clamp_max", None, "max"),
):
    register(f"aten.{_op}.default", partial(_clamp, least=_least, most=_most))


@op("aten.relu6.default")
def relu6(e: Emitter, a: Args) -> Code:
    bounds = ("Some(0.0)", "Some(6.0)") if a.output.is_float else ("Some(0)", "Some(6)")
    return call("ops::clamp" if a.output.is_float else "ops::clamp_int", e.ref(a["self"]), *bounds)


@op("aten.clamp.Tensor")
def clamp_tensor(e: Emitter, a: Args) -> Code:
    clamped = cast(e, a["self"], a.output.dtype)
    for name, function in (("min", "maximum"), ("max", "minimum")):
        if a[name] is not None:
            clamped = call(f"ops::{function}", clamped, cast(e, a[name], a.output.dtype)).borrowed
    return clamped.removeprefix("&")


@op("aten.round.decimals")
def round_decimals(e: Emitter, a: Args) -> Code:
    scale = number(e, 10.0 ** abs(a["decimals"]), "scale")
    there, back = ("mul", "div") if a["decimals"] >= 0 else ("div", "mul")
    scaled = call(f"ops::{there}_scalar", e.ref(a["self"]), scale)
    return call(f"ops::{back}_scalar", call("ops::round", scaled.borrowed).borrowed, scale)


@op("aten.gelu.default")
def gelu(e: Emitter, a: Args) -> Code:
    name = {"none": "gelu", "tanh": "gelu_tanh"}[a["approximate"]]
    return call(f"ops::{name}", e.ref(a["self"]))


@op("aten._prelu_kernel.default", "aten.prelu.default")
def prelu(e: Emitter, a: Args) -> Code:
    x, weight = a["self"], a["weight"]
    e.name_if_expression(x)
    rank, slope = e.meta(x).rank, e.ref(weight)
    if e.meta(weight).rank == 1 and rank > 1:
        shape = tuple_of([1, str(e.meta(weight).shape[0]), *[1] * (rank - 2)])
        slope = e.receiver(weight).method("reshape", shape).borrowed
    is_positive = call("ops::gt_scalar", e.ref(x), "0.0")
    scaled = call("ops::mul", e.ref(x), slope)
    return call("ops::where_cond", is_positive.borrowed, e.ref(x), scaled.borrowed)


@op("aten.glu.default")
def glu(e: Emitter, a: Args) -> Code:
    axis = a["dim"] % e.meta(a["self"]).rank
    size = e.meta(a["self"]).shape[axis]
    e.name_if_expression(a["self"])
    half = g.Sym(("floordiv", size.expr, 2)) if isinstance(size, g.Sym) else size // 2
    gate = call("ops::sigmoid", part(e, a["self"], axis, e.size(half, None), half, None).borrowed)
    return call("ops::mul", part(e, a["self"], axis, "0", half, None).borrowed, gate.borrowed)


@op("aten.rrelu_with_noise_functional.default")
def rrelu(e: Emitter, a: Args) -> list[Code]:
    """At inference the slope is the mean of the bounds; the noise is only drawn in training."""
    if a["training"]:
        raise Unsupported("its slope is random in training")
    a.ignore("noise")
    slope = e.slot((a["lower"] + a["upper"]) / 2, "slope", "f64")
    return [call("ops::leaky_relu", e.ref(a["self"]), slope)]


@op("aten.where.self")
def where(e: Emitter, a: Args) -> Code:
    dtype = a.output.dtype
    condition = e.ref(a["condition"])
    return call("ops::where_cond", condition, cast(e, a["self"], dtype), cast(e, a["other"], dtype))


@op("aten.where.ScalarOther")
def where_other(e: Emitter, a: Args) -> Code:
    mask = call("ops::logical_not", e.ref(a["condition"])).borrowed
    value = cast(e, a["self"], a.output.dtype)
    return call("ops::masked_fill", value, mask, number(e, a["other"], "fill"))


@op("aten.where.ScalarSelf")
def where_self(e: Emitter, a: Args) -> Code:
    fill = number(e, a["self"], "fill")
    return call("ops::masked_fill", cast(e, a["other"], a.output.dtype), e.ref(a["condition"]), fill)


@op("aten.masked_fill.Scalar")
def masked_fill(e: Emitter, a: Args) -> Code:
    return call("ops::masked_fill", e.ref(a["self"]), e.ref(a["mask"]), number(e, a["value"], "fill"))


@op("aten.masked_fill.Tensor")
def masked_fill_tensor(e: Emitter, a: Args) -> Code:
    value = cast(e, a["value"], a.output.dtype)
    return call("ops::where_cond", e.ref(a["mask"]), value, e.ref(a["self"]))


@op("aten._to_copy.default", "aten.type_as.default")
def to_copy(e: Emitter, a: Args) -> Code:
    a.ignore("dtype", "other")
    dtype_word(a.output.dtype)
    if same_dtype(e.meta(a["self"]).dtype, a.output.dtype):
        return e.receiver(a["self"]).cloned
    return converted(e, a["self"], a.output.dtype)


@op("aten._neg_view.default")
def neg_view(e: Emitter, a: Args) -> Code:
    return call("ops::neg", e.ref(a["self"]))


@op("aten.clone.default")
def clone(e: Emitter, a: Args) -> Code:
    return e.receiver(a["self"]).cloned


@op("aten.copy.default")
def copy(e: Emitter, a: Args) -> Code:
    """An assignment to (part of) a tensor: the new values take its shape and dtype."""
    a.ignore("self")
    source = cast(e, a["src"], a.output.dtype).removeprefix("&")
    if e.meta(a["src"]).shape == a.output.shape:
        return source if source.endswith("?") else source.cloned
    return source.method("broadcast_as", e.shape(a.output.shape))
