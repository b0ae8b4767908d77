"""Arithmetic, comparison, logic and bits: operations on two operands, with torch's promotion of dtypes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, call, code
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import cast, converted, number, operand, same_dtype
from torchport.targets.candle.registry import op, register

_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_OF_BOOLS = {"add": "logical_or", "mul": "logical_and"}
_CANDLE_IS_RIGHT = frozenset({"float32", "float64"})
"""The dtypes for which candle's own sums with numbers round as torch's do; integers could overflow.

Its products add zero, and so lose the sign of a zero.
"""


def _binary(name: str) -> Callable[[Emitter, Args], Code]:
    """Tensor with tensor or number: an operator if the shapes are equal, else a broadcasting method."""

    def emit(e: Emitter, a: Args) -> Code:
        other, dtype = a["other"], a.output.dtype
        if dtype == "bool":
            return _function(e, a, _OF_BOOLS[name])
        if a.values.get("alpha", 1) != 1:
            return _with_alpha(e, a, name, dtype)
        if not isinstance(other, g.Ref):
            return _with_number(e, name, a["self"], other, dtype)
        if not isinstance(a["self"], g.Ref):
            return _of_number(e, name, a["self"], other, dtype)
        left, right = a["self"], other
        plain = dtype in g.FLOATS and all(same_dtype(e.meta(ref).dtype, dtype) for ref in (left, right))
        if plain and e.meta(left).shape == e.meta(right).shape:
            return code("({} {} {})?", e.operand(left), _SYMBOLS[name], e.operand(right))
        if plain:
            return e.receiver(left).method(f"broadcast_{name}", e.ref(right))
        return call(f"ops::{name}", cast(e, left, dtype), cast(e, right, dtype))

    return emit


def _with_alpha(e: Emitter, a: Args, name: str, dtype: str) -> Code:
    """The sum with, or the difference from, the right operand times `alpha`."""
    other, alpha = a["other"], a["alpha"]
    if not isinstance(other, g.Ref):
        return _with_number(e, name, a["self"], other * alpha, dtype)
    if name == "sub" and isinstance(alpha, g.Sym):
        raise Unsupported("alpha is a free size")
    factor = number(e, -alpha if name == "sub" else alpha, "alpha")
    return call("ops::add_scaled", cast(e, a["self"], dtype), cast(e, other, dtype), factor)


def _with_number(e: Emitter, name: str, x: g.Ref, other: g.Arg, dtype: str) -> Code:
    if name == "sub" and dtype not in _CANDLE_IS_RIGHT:
        if isinstance(other, g.Sym):
            return code("ops::add_scalar({}, -({}))?", cast(e, x, dtype), number(e, other, name))
        name, other = "add", -other
    value = number(e, other, name)
    if dtype in _CANDLE_IS_RIGHT and name in ("add", "sub"):
        operand = e.operand(x) if same_dtype(e.meta(x).dtype, dtype) else converted(e, x, dtype)
        return code("({} {} {})?", operand, _SYMBOLS[name], value)
    return call(f"ops::{name}_scalar", cast(e, x, dtype), value)


def _of_number(e: Emitter, name: str, value: g.Arg, x: g.Ref, dtype: str) -> Code:
    """A number on the left, which decompositions write."""
    if name in ("add", "mul"):
        return _with_number(e, name, x, value, dtype)
    function = {"sub": "rsub_scalar", "div": "rdiv"}[name]
    return call(f"ops::{function}", number(e, value, name), cast(e, x, dtype))


for _name in _SYMBOLS:
    for _variant in ("Tensor", "Scalar"):
        register(f"aten.{_name}.{_variant}", _binary(_name))
register("aten.true_divide.Tensor", _binary("div"))


_WITH_NUMBER = frozenset({"floor_divide", "div_trunc", "remainder", "fmod"})
"""Functions of the runtime crate that have a form for a number on the right."""


def _function(e: Emitter, a: Args, name: str, right: str = "other") -> Code:
    dtype, x, y = a.output.dtype, a["self"], a[right]
    if name in _WITH_NUMBER and isinstance(x, g.Ref) and not isinstance(y, g.Ref):
        return call(f"ops::{name}_scalar", cast(e, x, dtype), number(e, y, name))
    like = x if isinstance(x, g.Ref) else y
    return call(f"ops::{name}", operand(e, x, dtype, like), operand(e, y, dtype, like))


@op("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div_mode(e: Emitter, a: Args) -> Code:
    mode = a["rounding_mode"]
    if mode is None:
        return _binary("div")(e, a)
    return _function(e, a, {"floor": "floor_divide", "trunc": "div_trunc"}[mode])


_FUNCTIONS = {
    "floor_divide": ("floor_divide.default", "floor_divide.Scalar"),
    "remainder": ("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor"),
    "fmod": ("fmod.Tensor", "fmod.Scalar"),
    **{name: (f"{name}.default",) for name in ("maximum", "minimum", "fmax", "fmin", "atan2", "hypot")},
    "copysign": ("copysign.Tensor", "copysign.Scalar"),
}
for _name, _ops in _FUNCTIONS.items():
    for _op in _ops:
        register(f"aten.{_op}", partial(_function, name=_name))
register("aten.pow.Tensor_Tensor", partial(_function, name="pow", right="exponent"))


@op("aten.rsub.Scalar")
def rsub(e: Emitter, a: Args) -> Code:
    return call("ops::rsub_scalar", number(e, a["other"], "rsub"), cast(e, a["self"], a.output.dtype))


def common_dtype(e: Emitter, *args: g.Arg) -> str:
    """The dtype that torch promotes operands to; ranks matter, and whether an operand is a number."""
    operands: list[Any] = [
        torch.empty((1,) * e.meta(arg).rank, dtype=getattr(torch, e.meta(arg).dtype), device="meta")
        if isinstance(arg, g.Ref)
        else 1
        if isinstance(arg, g.Sym)
        else arg
        for arg in args
    ]
    return str(torch.result_type(*operands)).removeprefix("torch.")


def _compare(name: str) -> Callable[[Emitter, Args], Code]:
    def emit(e: Emitter, a: Args) -> Code:
        left, right = a["self"], a["other"]
        dtype = common_dtype(e, left, right)
        if isinstance(right, g.Ref):
            return call(f"ops::{name}", cast(e, left, dtype), cast(e, right, dtype))
        return call(f"ops::{name}_scalar", cast(e, left, dtype), number(e, right, name))

    return emit


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    for _variant in ("Tensor", "Scalar"):
        register(f"aten.{_name}.{_variant}", _compare(_name))


def _logic(name: str) -> Callable[[Emitter, Args], Code]:
    def emit(e: Emitter, a: Args) -> Code:
        x, y = a["self"], a["other"]
        like = x if isinstance(x, g.Ref) else y
        dtype = "bool" if name.startswith("logical") else common_dtype(e, x, y)
        word = name.replace("bitwise", "logical") if dtype == "bool" else name
        return call(f"ops::{word}", operand(e, x, dtype, like), operand(e, y, dtype, like))

    return emit


for _word in ("and", "or", "xor"):
    register(f"aten.logical_{_word}.default", _logic(f"logical_{_word}"))
    for _variant in ("Tensor", "Scalar"):
        register(f"aten.bitwise_{_word}.{_variant}", _logic(f"bitwise_{_word}"))
        register(f"aten.__{_word}__.{_variant}", _logic(f"bitwise_{_word}"))
    register(f"aten.bitwise_{_word}.Scalar_Tensor", _logic(f"bitwise_{_word}"))
for _word, _side in (("left", "l"), ("right", "r")):
    register(f"aten.bitwise_{_word}_shift.Tensor", _logic(f"bitwise_{_word}_shift"))
    register(f"aten.bitwise_{_word}_shift.Tensor_Scalar", _logic(f"bitwise_{_word}_shift"))
    register(f"aten.bitwise_{_word}_shift.Scalar_Tensor", _logic(f"bitwise_{_word}_shift"))
    for _variant in ("Tensor", "Scalar"):
        register(f"aten.__{_side}shift__.{_variant}", _logic(f"bitwise_{_word}_shift"))


@op("aten.bitwise_not.default")
def bitwise_not(e: Emitter, a: Args) -> Code:
    name = "logical_not" if e.meta(a["self"]).dtype == "bool" else "bitwise_not"
    return call(f"ops::{name}", e.ref(a["self"]))
