"""Sums, differences, products and quotients, element by element."""

from __future__ import annotations

import math
from typing import Any

from torchport.targets.marble.composer import Composer, Number, Operand, Unsupported, Value, Weight
from torchport.targets.marble.groups import Kind
from torchport.targets.marble.recipes.registry import recipe, rows


@recipe("aten.add.Tensor", "aten.add.Scalar")
def add(c: Composer, self: Operand, other: Operand, alpha: Number = 1) -> Value:
    return added(c, self, other, alpha)


@recipe("aten.sub.Tensor", "aten.sub.Scalar")
def sub(c: Composer, self: Operand, other: Operand, alpha: Number = 1) -> Value:
    return added(c, self, other, -alpha)


@recipe("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(c: Composer, self: Operand, other: Operand, alpha: Number = 1) -> Value:
    return (
        c.weighted((as_value(c, self), -alpha), (as_value(c, other), 1))
        if is_tensor(other)
        else c.weighted((as_value(c, self), -alpha), bias=plain(other))
    )


def added(c: Composer, first: Operand, second: Operand, factor: Number) -> Value:
    """One value and a multiple of another. What never changes is a bias."""
    if isinstance(second, Value):
        if isinstance(first, Weight) and factor == 1 and fits(first, second):
            return c.weighted((second, 1), bias=first)
        return c.weighted((as_value(c, first), 1), (second, factor))
    if isinstance(second, Weight):
        if isinstance(first, Value) and factor == 1 and fits(second, first):
            return c.weighted((first, 1), bias=second)
        return c.weighted((as_value(c, first), 1), (c.constant(second), factor))
    return c.weighted((as_value(c, first), 1), bias=second * factor)


@recipe("aten.mul.Tensor", "aten.mul.Scalar")
def mul(c: Composer, self: Operand, other: Operand) -> Value:
    is_turned = not isinstance(self, Value) and is_tensor(other)
    first, second = (other, self) if is_turned else (self, other)
    if isinstance(first, Value) and isinstance(second, Weight) and fits(second, first):
        return c.weighted((first, second))
    if not is_tensor(second):
        return c.weighted((as_value(c, first), plain(second)))
    return c.product(as_value(c, first), as_value(c, second))


@recipe("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(c: Composer, self: Operand, other: Operand) -> Value:
    value = as_value(c, self)
    if is_tensor(other):
        return c.quotient(value, as_value(c, other))
    number = plain(other)
    if value.is_float and isinstance(number, int | float) and math.frexp(number)[0] in (0.5, -0.5):
        return c.weighted((value, 1 / number))
    return c.function("aten.div.Scalar", value, other=number)


@recipe("aten.addcmul.default")
def addcmul(c: Composer, self: Operand, tensor1: Operand, tensor2: Operand, value: Number = 1) -> Value:
    return c.weighted((as_value(c, self), 1), (c.product(as_value(c, tensor1), as_value(c, tensor2)), value))


@recipe("aten.lerp.Scalar")
def lerp(c: Composer, self: Operand, end: Operand, weight: Number) -> Value:
    return c.weighted((as_value(c, self), 1 - weight), (as_value(c, end), weight))


@recipe("aten.hypot.default")
def hypot(c: Composer, self: Operand, other: Operand) -> Value:
    """The root of the sum of two squares, of which the larger value is taken out, so that none overflows."""
    return c.operation(
        Kind.REDUCTION, "aten.hypot.default", [("self", as_value(c, self)), ("other", as_value(c, other))]
    )[0]


@recipe("aten.clamp.Tensor")
def clamp(c: Composer, self: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
    value = as_value(c, self)
    value = value if min is None else _pair(c, "larger", value, min)
    return value if max is None else _pair(c, "smaller", value, max)


@recipe("aten.glu.default")
def glu(c: Composer, self: Operand, dim: int = -1) -> Value:
    value = as_value(c, self)
    first, second = c.operation(
        Kind.WIRING, "aten.chunk.default", [("self", value)], {"chunks": 2, "dim": dim}
    )
    return c.product(first, c.function("aten.sigmoid.default", second))


@recipe("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(c: Composer, self: Operand, weight: Operand) -> Value:
    value, slope = as_value(c, self), as_value(c, weight)
    if slope.rank == 1 and value.rank > 1:
        slope = c.reshaped(slope, [1, -1] + [1] * (value.rank - 2))
    is_above = c.function("aten.gt.Scalar", value, other=0)
    return c.chosen(is_above, value, c.product(value, slope))


@recipe("aten.rrelu_with_noise_functional.default")
def rrelu(
    c: Composer,
    self: Operand,
    noise: Operand,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> list[Value]:
    if training:
        raise Unsupported("which takes a slope at random")
    slope = (lower + upper) / 2
    made = c.function("aten.leaky_relu.default", as_value(c, self), negative_slope=slope)
    return [made, as_value(c, noise)]


@recipe("aten.maximum.default", "aten.max.other", "aten.clamp_min.Tensor")
def maximum(c: Composer, self: Operand, **other: Any) -> Value:
    return _pair(c, "larger", self, *other.values())


@recipe("aten.minimum.default", "aten.min.other", "aten.clamp_max.Tensor")
def minimum(c: Composer, self: Operand, **other: Any) -> Value:
    return _pair(c, "smaller", self, *other.values())


def _pair(c: Composer, work: str, first: Operand, second: Operand) -> Value:
    return c.add(Kind.REDUCTION, work, [as_value(c, first), as_value(c, second)])


rows(
    Kind.SELECTION,
    [
        *(f"aten.{name}.Tensor" for name in ["eq", "ne", "lt", "le", "gt", "ge", "remainder", "fmod"]),
        *(f"aten.{name}.default" for name in ["logical_and", "logical_or", "logical_xor", "atan2"]),
        *(
            f"aten.{name}.Tensor"
            for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__"]
        ),
        *(
            f"aten.{name}.Tensor"
            for name in ["__lshift__", "__rshift__", "bitwise_left_shift", "bitwise_right_shift", "copysign"]
        ),
        *("aten.floor_divide.default", "aten.div.Tensor_mode", "aten.pow.Tensor_Tensor"),
        "aten.remainder.Scalar_Tensor",
    ],
)
rows(Kind.REDUCTION, ["aten.fmax.default", "aten.fmin.default"])


def is_tensor(operand: Operand) -> bool:
    return isinstance(operand, Value | Weight)


def plain(operand: Operand) -> Number:
    assert not isinstance(operand, Value | Weight)
    return operand


def as_value(c: Composer, operand: Operand) -> Value:
    """The operand as what neurons give; a number cannot be one."""
    if isinstance(operand, Value):
        return operand
    assert isinstance(operand, Weight)
    return c.constant(operand)


def fits(weight: Weight, value: Value) -> bool:
    """Whether a weight can be on the synapses of a value: the result has the shape and the dtype of the value."""
    if weight.form.dtype != value.dtype or weight.rank > value.rank:
        return False
    along = zip(reversed(weight.shape), reversed(value.shape), strict=False)
    return all(own in (1, other) for own, other in along)
