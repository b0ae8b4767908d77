"""Sums, differences, products and quotients, element by element."""

from __future__ import annotations

from typing import Any

from torchport.targets.marble.composer import Composer, Number, Operand, Value, Weight
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
    first, second = (self, other) if isinstance(self, Value) else (other, self)
    if isinstance(first, Value) and isinstance(second, Weight) and fits(second, first):
        return c.weighted((first, second))
    if not is_tensor(second):
        return c.weighted((as_value(c, first), plain(second)))
    return c.product(as_value(c, first), as_value(c, second))


@recipe("aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor")
def div(c: Composer, self: Operand, other: Operand) -> Value:
    if is_tensor(other):
        return c.product(as_value(c, self), c.function("aten.reciprocal.default", as_value(c, other)))
    return c.weighted((as_value(c, self), 1 / plain(other)))


@recipe("aten.addcmul.default")
def addcmul(c: Composer, self: Operand, tensor1: Operand, tensor2: Operand, value: Number = 1) -> Value:
    return c.weighted((as_value(c, self), 1), (c.product(as_value(c, tensor1), as_value(c, tensor2)), value))


@recipe("aten.lerp.Scalar")
def lerp(c: Composer, self: Operand, end: Operand, weight: Number) -> Value:
    return c.weighted((as_value(c, self), 1 - weight), (as_value(c, end), weight))


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
        *("aten.floor_divide.default", "aten.div.Tensor_mode", "aten.pow.Tensor_Tensor"),
    ],
)


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
