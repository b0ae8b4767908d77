"""Layers with weights, products of matrices, and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from torchport.targets.marble.composer import Composer, Number, Operand, Unsupported, Value, Weight
from torchport.targets.marble.groups import Kind
from torchport.targets.marble.recipes.arithmetic import added, as_value
from torchport.targets.marble.recipes.norms import softmax
from torchport.targets.marble.recipes.registry import recipe, widened


@recipe("aten.linear.default")
def linear(c: Composer, input: Operand, weight: Operand, bias: Operand | None = None) -> Value:
    value = as_value(c, input)
    if isinstance(weight, Weight) and (bias is None or isinstance(bias, Weight)):
        return c.dense(value, weight, bias)
    made: Value = _linear_of_values(c, input=value, weight=weight, bias=bias)
    return made


@widened
def _linear_of_values(c: Composer, input: Value, weight: Operand, bias: Operand | None) -> Value:
    """A layer whose weights the model computes."""
    made = multiplied(c, input, _turned(c, as_value(c, weight)))
    return made if bias is None else added(c, made, bias, 1)


@recipe("aten.matmul.default", "aten.mm.default", "aten.bmm.default", "aten.mv.default", "aten.dot.default")
@widened
def matmul(c: Composer, self: Operand, **other: Operand) -> Value:
    (second,) = other.values()
    return multiplied(c, as_value(c, self), as_value(c, second))


@recipe("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default")
@widened
def addmm(c: Composer, self: Operand, beta: Number = 1, alpha: Number = 1, **factors: Operand) -> Value:
    first, second = (as_value(c, factor) for factor in factors.values())
    made = multiplied(c, first, second)
    return c.weighted((made, alpha), (as_value(c, self), beta))


def multiplied(c: Composer, first: Value, second: Value) -> Value:
    """The product of two matrices, or of stacks of them: products of pairs, added up."""
    if first.rank == 1:
        row = c.wire("aten.unsqueeze.default", first, dim=0)
        made = multiplied(c, row, second)
        return c.wire("aten.squeeze.dim", made, dim=-2 if second.rank > 1 else 0)
    if second.rank == 1:
        made = multiplied(c, first, c.wire("aten.unsqueeze.default", second, dim=1))
        return c.wire("aten.squeeze.dim", made, dim=-1)
    rows = c.wire("aten.unsqueeze.default", first, dim=-2)
    columns = c.wire("aten.unsqueeze.default", _turned(c, second), dim=-3)
    return c.reduce("sum", c.product(rows, columns), [-1])


def _turned(c: Composer, value: Value) -> Value:
    return c.transposed(value, -2, -1)


@recipe("aten.convolution.default")
def convolution(
    c: Composer,
    input: Operand,
    weight: Operand,
    bias: Operand | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    beyond = output_padding if transposed else None
    return convolved(c, input, weight, bias, stride, padding, dilation, groups, beyond)


@recipe("aten._weight_norm_interface.default")
@widened
def weight_norm(c: Composer, v: Operand, g: Operand, dim: int = 0) -> list[Value]:
    """A direction times a length, and the length that the direction had."""
    direction, length = as_value(c, v), as_value(c, g)
    others = [axis for axis in range(direction.rank) if axis != dim % direction.rank]
    squares = c.reduce("sum", c.product(direction, direction), others, keepdim=True)
    norm = c.function("aten.sqrt.default", squares)
    return [c.product(direction, c.quotient(length, norm)), norm]


@recipe("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(
    c: Composer,
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Value:
    return convolved(c, input, weight, bias, stride, padding, dilation, groups)


@recipe("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose(
    c: Composer,
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    output_padding: Sequence[int] = (0,),
    groups: int = 1,
    dilation: Sequence[int] = (1,),
) -> Value:
    return convolved(c, input, weight, bias, stride, padding, dilation, groups, output_padding)


@recipe("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_padded(
    c: Composer,
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sequence[int] = (1,),
    padding: str = "valid",
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Value:
    assert isinstance(weight, Value | Weight)
    axes = weight.rank - 2
    if padding == "valid":
        return convolved(c, input, weight, bias, stride, (0,), dilation, groups)
    far = [step * (size - 1) for step, size in zip(_each(dilation, axes), weight.shape[2:], strict=True)]
    value, around = as_value(c, input), [size // 2 for size in far]
    if any(size % 2 for size in far):
        sides = [side for size in reversed(far) for side in (0, size % 2)]
        value = c.wire("aten.constant_pad_nd.default", value, pad=sides)
    return convolved(c, value, weight, bias, stride, around, dilation, groups)


def convolved(
    c: Composer,
    input: Operand,
    weight: Operand,
    bias: Operand | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    output_padding: Sequence[int] | None = None,
) -> Value:
    assert isinstance(weight, Value | Weight)
    value, axes = as_value(c, input), weight.rank - 2
    options: dict[str, Any] = {
        "stride": _each(stride, axes),
        "padding": _each(padding, axes),
        "dilation": _each(dilation, axes),
        "transposed": output_padding is not None,
        "output_padding": _each(output_padding or (0,), axes),
        "groups": groups,
    }
    if value.rank == axes + 2:
        return _convolved_stack(c, value, weight, bias, options)
    one = c.wire("aten.unsqueeze.default", value, dim=0)
    return c.wire("aten.squeeze.dim", _convolved_stack(c, one, weight, bias, options), dim=0)


def _convolved_stack(
    c: Composer, value: Value, weight: Value | Weight, bias: Operand | None, options: dict[str, Any]
) -> Value:
    if isinstance(weight, Weight) and (bias is None or isinstance(bias, Weight)):
        return c.convolution(value, weight, bias, options)
    # The model computes the weights, so that two values meet in each product.
    given = [("input", value), ("weight", as_value(c, weight))]
    given += [] if bias is None else [("bias", as_value(c, bias))]
    absent = {"bias": None} if bias is None else {}
    return c.operation(Kind.PRODUCT, "aten.convolution.default", given, {**absent, **options})[0]


def _each(sizes: Sequence[int] | int, axes: int) -> list[int]:
    given = [sizes] if isinstance(sizes, int) else list(sizes)
    return given * axes if len(given) == 1 else given


@recipe("aten.scaled_dot_product_attention.default")
@widened
def attention(
    c: Composer,
    query: Operand,
    key: Operand,
    value: Operand,
    attn_mask: Operand | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if dropout_p:
        raise Unsupported("it drops out at random")
    q, k, v = (as_value(c, operand) for operand in (query, key, value))
    if enable_gqa:
        k, v = (_repeated(c, one, q.shape[-3] // one.shape[-3]) for one in (k, v))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = c.weighted((multiplied(c, q, _turned(c, k)), factor))
    if is_causal:
        scores = _causal(c, scores)
    if attn_mask is not None:
        scores = _masked(c, scores, as_value(c, attn_mask))
    shares = softmax(c, scores, -1)
    if attn_mask is not None:
        shares = _nothing_of_nothing(c, scores, shares)
    return multiplied(c, shares, v)


def _nothing_of_nothing(c: Composer, scores: Value, shares: Value) -> Value:
    """A row that sees nothing gets zeros, where a softmax would give NaN."""
    largest = c.reduce("max", scores, [-1], keepdim=True)
    return c.filled(shares, c.function("aten.eq.Scalar", largest, other=-math.inf), 0)


def _repeated(c: Composer, value: Value, times: int) -> Value:
    """Heads that several queries share."""
    return c.wire("aten.repeat_interleave.self_int", value, repeats=times, dim=-3)


def _causal(c: Composer, scores: Value) -> Value:
    rows, columns = scores.shape[-2:]
    hidden = torch.ones(rows, columns, dtype=torch.bool).triu(1)
    return c.filled(scores, c.constant(c.array("hidden", hidden)), -math.inf)


def _masked(c: Composer, scores: Value, mask: Value) -> Value:
    if mask.dtype == "bool":
        return c.filled(scores, c.function("aten.logical_not.default", mask), -math.inf)
    return c.weighted((scores, 1), (mask, 1))
