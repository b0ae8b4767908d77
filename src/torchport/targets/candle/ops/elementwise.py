"""Arithmetic, comparison, logic and activation functions."""

from __future__ import annotations

from collections.abc import Callable

import torch

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.emit import Emitter, Unsupported
from torchport.targets.candle.registry import Args, cast, converted, dtype_word, op, register, rows, same_dtype

_FLOAT_UNARY = (
    "exp expm1 log log1p log2 sin cos tan asin acos atan sinh cosh rsqrt sqrt reciprocal sigmoid tanh erf"
).split()
_SAME_UNARY = (
    "relu silu mish hardswish hardsigmoid log_sigmoid floor ceil trunc round sign abs neg logical_not isnan isinf"
).split()

rows({f"aten.{name}.default": f"ops::{name}({{self}})?" for name in _FLOAT_UNARY}, promote=True)
rows({f"aten.{name}.default": f"ops::{name}({{self}})?" for name in _SAME_UNARY})
rows(
    {
        "aten.elu.default": "ops::elu({self}, {alpha:f64}, {scale:f64}, {input_scale:f64})?",
        "aten.leaky_relu.default": "ops::leaky_relu({self}, {negative_slope:f64})?",
        "aten.hardtanh.default": "ops::clamp({self}, {min_val:opt_f64}, {max_val:opt_f64})?",
        "aten.relu6.default": "ops::clamp({self}, Some(0.0), Some(6.0))?",
        "aten.clamp.default": "ops::clamp({self}, {min:opt_f64}, {max:opt_f64})?",
        "aten.clamp_min.default": "ops::clamp({self}, {min:opt_f64}, None)?",
        "aten.clamp_max.default": "ops::clamp({self}, None, {max:opt_f64})?",
        "aten.softplus.default": "ops::softplus({self}, {beta:f64}, {threshold:f64})?",
        "aten.pow.Tensor_Scalar": "ops::pow_scalar({self}, {exponent:f64})?",
        "aten.pow.Scalar": "ops::rpow({self:f64}, {exponent})?",
    },
    promote=True,
)


@op("aten.gelu.default")
def gelu(e: Emitter, a: Args) -> str:
    name = {"none": "gelu", "tanh": "gelu_tanh"}[a["approximate"]]
    return f"ops::{name}({e.ref(a['self'])})?"


@op("aten._prelu_kernel.default", "aten.prelu.default")
def prelu(e: Emitter, a: Args) -> str:
    x, weight = a["self"], a["weight"]
    rank, slope = e.meta(x).rank, e.ref(weight)
    if e.meta(weight).rank == 1 and rank > 1:
        shape = ", ".join(["1", str(e.meta(weight).shape[0])] + ["1"] * (rank - 2))
        slope = f"&{e.receiver(weight)}.reshape(({shape}))?"
    return f"ops::where_cond(&ops::gt_scalar({e.ref(x)}, 0.0)?, {e.ref(x)}, &ops::mul({e.ref(x)}, {slope})?)?"


@op("aten.glu.default")
def glu(e: Emitter, a: Args) -> str:
    axis = a["dim"] % e.meta(a["self"]).rank
    size = e.meta(a["self"]).shape[axis]
    if isinstance(size, g.Sym):
        raise Unsupported("its axis has a free size")
    x, half = e.receiver(a["self"]), e.slot(size // 2, None)
    return f"ops::mul(&{x}.narrow({axis}, 0, {half})?, &ops::sigmoid(&{x}.narrow({axis}, {half}, {half})?)?)?"


_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def _binary(name: str) -> Callable[[Emitter, Args], str]:
    """Tensor with tensor or number: an operator where shapes are equal, else broadcasting."""

    def emit(e: Emitter, a: Args) -> str:
        other = a["other"]
        dtype = a.output.dtype
        if dtype == "bool":
            raise Unsupported("arithmetic on booleans")
        if a.values.get("alpha", 1) != 1:
            other = _scaled(e, a, dtype)
            return f"ops::{name}({cast(e, a['self'], dtype)}, &{other})?"
        if not isinstance(other, g.Ref):
            return _with_number(e, name, converted_value(e, a["self"], dtype), other, dtype)
        left, right = a["self"], other
        plain = all(same_dtype(e.meta(ref).dtype, dtype) for ref in (left, right))
        if plain and e.meta(left).shape == e.meta(right).shape and (name != "div" or dtype in g.FLOATS):
            return f"({e.operand(left)} {_SYMBOLS[name]} {e.operand(right)})?"
        if plain and dtype in g.FLOATS:
            return f"{e.receiver(left)}.broadcast_{name}({e.ref(right)})?"
        return f"ops::{name}({cast(e, left, dtype)}, {cast(e, right, dtype)})?"

    return emit


def converted_value(e: Emitter, arg: g.Ref, dtype: str) -> str:
    """The value as an operand, converted where its dtype is another."""
    return e.operand(arg) if same_dtype(e.meta(arg).dtype, dtype) else converted(e, arg, dtype)


def _scaled(e: Emitter, a: Args, dtype: str) -> str:
    other, alpha = a["other"], a["alpha"]
    if not isinstance(other, g.Ref):
        raise Unsupported("alpha with a number")
    return f"ops::mul_scalar({cast(e, other, dtype)}, {e.slot(alpha, 'alpha', 'f64')})?"


def _with_number(e: Emitter, name: str, operand: str, number: g.Arg, dtype: str) -> str:
    if name == "sub" and dtype not in g.FLOATS and isinstance(number, int | float):
        name, number = "add", -number
    if isinstance(number, g.Sym):
        value = f"{e.size(number)} as f64"
    elif isinstance(number, int | float):
        value = e.slot(number, name, "f64")
    else:
        raise Unsupported(f"its other operand is {number!r}")
    if dtype in g.FLOATS and name != "div":
        return f"({operand} {_SYMBOLS[name]} {value})?"
    reference = operand if operand.startswith("&") or operand.isidentifier() else f"&{operand}"
    if name == "sub":
        value = f"-({value})"
    function = {"add": "add_scalar", "sub": "add_scalar", "mul": "mul_scalar", "div": "div_scalar"}[name]
    return f"ops::{function}({reference}, {value})?"


for _name in _SYMBOLS:
    for _variant in ("Tensor", "Scalar"):
        register(f"aten.{_name}.{_variant}", _binary(_name))


@op("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(e: Emitter, a: Args) -> str:
    mode = a["rounding_mode"]
    if mode is None:
        return _binary("div")(e, a)
    name = {"floor": "floor_divide", "trunc": "div_trunc"}[mode]
    return _function(e, a, name)


def _function(e: Emitter, a: Args, name: str) -> str:
    dtype, other = a.output.dtype, a["other"]
    left = cast(e, a["self"], dtype)
    if isinstance(other, g.Ref):
        return f"ops::{name}({left}, {cast(e, other, dtype)})?"
    value = f"{e.size(other)} as f64" if isinstance(other, g.Sym) else e.slot(other, name, "f64")
    return f"ops::{name}_scalar({left}, {value})?"


for _name in ("floor_divide", "remainder", "fmod"):
    for _variant in ("Tensor", "Scalar") if _name != "floor_divide" else ("default", "Scalar"):
        register(f"aten.{_name}.{_variant}", lambda e, a, _name=_name: _function(e, a, _name))
register("aten.pow.Tensor_Tensor", lambda e, a: _pow(e, a))
for _name in ("maximum", "minimum", "atan2"):
    register(f"aten.{_name}.default", lambda e, a, _name=_name: _function(e, a, _name))


def _pow(e: Emitter, a: Args) -> str:
    dtype = a.output.dtype
    return f"ops::pow({cast(e, a['self'], dtype)}, {cast(e, a['exponent'], dtype)})?"


@op("aten.rsub.Scalar")
def rsub(e: Emitter, a: Args) -> str:
    return f"ops::rsub_scalar({e.slot(a['other'], 'rsub', 'f64')}, {cast(e, a['self'], a.output.dtype)})?"


def common_dtype(e: Emitter, *args: g.Arg) -> str:
    """torch's promotion, which looks at ranks and at whether an operand is a number."""
    operands = [
        torch.empty((1,) * e.meta(arg).rank, dtype=getattr(torch, e.meta(arg).dtype), device="meta")
        if isinstance(arg, g.Ref)
        else 1
        if isinstance(arg, g.Sym)
        else arg
        for arg in args
    ]
    return str(torch.result_type(*operands)).removeprefix("torch.")


def _compare(name: str) -> Callable[[Emitter, Args], str]:
    def emit(e: Emitter, a: Args) -> str:
        left, right = a["self"], a["other"]
        dtype = common_dtype(e, left, right)
        if isinstance(right, g.Ref):
            return f"ops::{name}({cast(e, left, dtype)}, {cast(e, right, dtype)})?"
        value = f"{e.size(right)} as f64" if isinstance(right, g.Sym) else e.slot(right, name, "f64")
        return f"ops::{name}_scalar({cast(e, left, dtype)}, {value})?"

    return emit


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    for _variant in ("Tensor", "Scalar"):
        register(f"aten.{_name}.{_variant}", _compare(_name))


def _logic(name: str) -> Callable[[Emitter, Args], str]:
    def emit(e: Emitter, a: Args) -> str:
        dtype = common_dtype(e, a["self"], a["other"]) if name.startswith("bitwise") else "bool"
        word = name.replace("bitwise", "logical") if dtype == "bool" else name
        return f"ops::{word}({cast(e, a['self'], dtype)}, {cast(e, a['other'], dtype)})?"

    return emit


for _word in ("and", "or", "xor"):
    register(f"aten.logical_{_word}.default", _logic(f"logical_{_word}"))
    register(f"aten.bitwise_{_word}.Tensor", _logic(f"bitwise_{_word}"))
    register(f"aten.__{_word}__.Tensor", _logic(f"bitwise_{_word}"))


@op("aten.bitwise_not.default")
def bitwise_not(e: Emitter, a: Args) -> str:
    name = "logical_not" if e.meta(a["self"]).dtype == "bool" else "bitwise_not"
    return f"ops::{name}({e.ref(a['self'])})?"


@op("aten.where.self")
def where(e: Emitter, a: Args) -> str:
    dtype = a.output.dtype
    condition = e.ref(a["condition"])
    return f"ops::where_cond({condition}, {cast(e, a['self'], dtype)}, {cast(e, a['other'], dtype)})?"


@op("aten.where.ScalarOther")
def where_other(e: Emitter, a: Args) -> str:
    if not isinstance(a["other"], int | float):
        raise Unsupported("its other value is not a number")
    mask = f"&ops::logical_not({e.ref(a['condition'])})?"
    return f"ops::masked_fill({cast(e, a['self'], a.output.dtype)}, {mask}, {rust.float_literal(float(a['other']))})?"


@op("aten.where.ScalarSelf")
def where_self(e: Emitter, a: Args) -> str:
    value = rust.float_literal(float(a["self"]))
    return f"ops::masked_fill({cast(e, a['other'], a.output.dtype)}, {e.ref(a['condition'])}, {value})?"


@op("aten.masked_fill.Scalar")
def masked_fill(e: Emitter, a: Args) -> str:
    return f"ops::masked_fill({e.ref(a['self'])}, {e.ref(a['mask'])}, {rust.float_literal(float(a['value']))})?"


@op("aten.masked_fill.Tensor")
def masked_fill_tensor(e: Emitter, a: Args) -> str:
    value = cast(e, a["value"], a.output.dtype)
    return f"ops::where_cond({e.ref(a['mask'])}, {value}, {e.ref(a['self'])})?"


@op("aten._to_copy.default", "aten.to.dtype", "aten.type_as.default")
def to_copy(e: Emitter, a: Args) -> str:
    for name in ("dtype", "other", "copy"):
        if name in a.values:
            a[name]
    dtype_word(a.output.dtype)
    return converted(e, a["self"], a.output.dtype)
