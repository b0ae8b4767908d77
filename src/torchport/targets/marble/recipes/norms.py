"""Softmax and normalisations, as the sums, functions and products that they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torchport.capture.torch_internals import eps_of_rms_norm
from torchport.targets.marble.composer import Composer, Operand, Unsupported, Value, Weight
from torchport.targets.marble.recipes.arithmetic import as_value, fits
from torchport.targets.marble.recipes.registry import Recipe, recipe, widened


def _of_dtype(made: Recipe) -> Recipe:
    """The recipe of an operation that may be told the dtype of its result, to which its operand is cast first."""

    def cast(c: Composer, self: Operand, dim: int, **rest: Any) -> Value:
        value, dtype = as_value(c, self), rest.get("dtype")
        result: Value = made(c, self=value if dtype is None else c.cast(value, dtype.name), dim=dim)
        return result

    return cast


@recipe("aten.softmax.int", "aten._softmax.default")
@_of_dtype
@widened
def softmax(c: Composer, self: Value, dim: int) -> Value:
    powers = c.function("aten.exp.default", _below_the_largest(c, self, dim))
    return c.quotient(powers, c.reduce("sum", powers, [dim], keepdim=True))


@recipe("aten.log_softmax.int", "aten._log_softmax.default")
@_of_dtype
@widened
def log_softmax(c: Composer, self: Value, dim: int) -> Value:
    below = _below_the_largest(c, self, dim)
    total = c.reduce("sum", c.function("aten.exp.default", below), [dim], keepdim=True)
    return c.weighted((below, 1), (c.function("aten.log.default", total), -1))


def _below_the_largest(c: Composer, value: Value, dim: int) -> Value:
    return c.weighted((value, 1), (c.reduce("max", value, [dim], keepdim=True), -1))


@recipe("aten.layer_norm.default")
@widened
def layer_norm(
    c: Composer,
    input: Operand,
    normalized_shape: Sequence[int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    value = as_value(c, input)
    dims = list(range(value.rank - len(normalized_shape), value.rank))
    return scaled(c, standardised(c, value, dims, eps), weight, bias)


@recipe("aten.native_layer_norm.default")
@widened
def layer_norm_and_statistics(
    c: Composer,
    input: Operand,
    normalized_shape: Sequence[int],
    weight: Operand | None,
    bias: Operand | None,
    eps: float,
) -> list[Value]:
    value = as_value(c, input)
    dims = list(range(value.rank - len(normalized_shape), value.rank))
    made, mean, root = with_statistics(c, value, dims, eps)
    return [scaled(c, made, weight, bias), mean, root]


@recipe("aten.rms_norm.default")
def rms_norm(
    c: Composer,
    input: Operand,
    normalized_shape: Sequence[int],
    weight: Operand | None = None,
    eps: float | None = None,
) -> Value:
    value = as_value(c, input)
    least = eps_of_rms_norm(getattr(torch, value.dtype)) if eps is None else eps
    dims = list(range(value.rank - len(normalized_shape), value.rank))
    made: Value = _root_mean_square(c, input=value, dims=dims, weight=weight, eps=least)
    return made


@widened
def _root_mean_square(
    c: Composer, input: Value, dims: Sequence[int], weight: Operand | None, eps: float
) -> Value:
    value, least = input, eps
    mean = c.reduce("mean", c.product(value, value), dims, keepdim=True)
    root = c.function("aten.rsqrt.default", c.weighted((mean, 1), bias=least))
    return scaled(c, c.product(value, root), weight, None)


@recipe("aten.group_norm.default")
@widened
def group_norm(
    c: Composer,
    input: Operand,
    num_groups: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    value = as_value(c, input)
    grouped = c.reshaped(value, (value.shape[0], num_groups, -1))
    made = c.reshaped(standardised(c, grouped, [2], eps), value.shape)
    return scaled(c, made, _along_channels(c, weight, value), _along_channels(c, bias, value))


@recipe("aten.instance_norm.default")
@widened
def instance_norm(
    c: Composer,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    value = as_value(c, input)
    if not use_input_stats:
        return _by_statistics(c, value, (running_mean, running_var), weight, bias, eps)
    made = standardised(c, value, list(range(2, value.rank)), eps)
    return scaled(c, made, _along_channels(c, weight, value), _along_channels(c, bias, value))


@recipe("aten.batch_norm.default")
@widened
def batch_norm(
    c: Composer,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    value = as_value(c, input)
    if not training and running_mean is not None and running_var is not None:
        return _by_statistics(c, value, (running_mean, running_var), weight, bias, eps)
    made = standardised(c, value, [axis for axis in range(value.rank) if axis != 1], eps)
    return scaled(c, made, _along_channels(c, weight, value), _along_channels(c, bias, value))


def _by_statistics(
    c: Composer,
    value: Value,
    statistics: tuple[Operand | None, Operand | None],
    weight: Operand | None,
    bias: Operand | None,
    eps: float,
) -> Value:
    """Values by a mean and a variance that were learnt: each channel has one factor and one shift, as in torch."""
    mean, var = (as_value(c, _along_channels(c, one, value)) for one in statistics)
    factor = c.function("aten.rsqrt.default", c.weighted((var, 1), bias=eps))
    if weight is not None:
        factor = c.product(factor, _along_channels(c, weight, value))
    shift = c.product(mean, factor)
    if bias is None:
        return c.weighted((c.product(value, factor), 1), (shift, -1))
    shift = c.weighted((_along_channels(c, bias, value), 1), (shift, -1))
    return c.weighted((c.product(value, factor), 1), (shift, 1))


@recipe("aten._native_batch_norm_legit.no_stats")
@widened
def batch_norm_of_the_batch(
    c: Composer,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Value]:
    value = as_value(c, input)
    made, *statistics = with_statistics(c, value, [axis for axis in range(value.rank) if axis != 1], eps)
    made = scaled(c, made, _along_channels(c, weight, value), _along_channels(c, bias, value))
    return [made, *(c.reshaped(one, [-1]) for one in statistics)]


@recipe("aten._native_batch_norm_legit_no_training.default")
@widened
def batch_norm_of_statistics(
    c: Composer,
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand,
    running_var: Operand,
    momentum: float,
    eps: float,
) -> list[Value]:
    value = batch_norm(
        c,
        input=input,
        weight=weight,
        bias=bias,
        running_mean=running_mean,
        running_var=running_var,
        training=False,
        momentum=momentum,
        eps=eps,
        cudnn_enabled=False,
    )
    nothing = c.constant(c.array("nothing", torch.empty(0)))
    return [value, nothing, nothing]


def standardised(c: Composer, value: Value, dims: Sequence[int], eps: float) -> Value:
    """Values less their mean, over their deviation."""
    return with_statistics(c, value, dims, eps)[0]


def with_statistics(c: Composer, value: Value, dims: Sequence[int], eps: float) -> tuple[Value, Value, Value]:
    """Values less their mean, over their deviation; the mean, and the inverse of the deviation."""
    mean = c.reduce("mean", value, dims, keepdim=True)
    centred = c.weighted((value, 1), (mean, -1))
    var = c.reduce("mean", c.product(centred, centred), dims, keepdim=True)
    root = c.function("aten.rsqrt.default", c.weighted((var, 1), bias=eps))
    return c.product(centred, root), mean, root


def scaled(c: Composer, value: Value, weight: Operand | None, bias: Operand | None) -> Value:
    """Values times a weight of the last axes, and a bias."""
    if weight is None and bias is None:
        return value
    if all(one is None or (isinstance(one, Weight) and fits(one, value)) for one in (weight, bias)):
        return c.weighted((value, 1 if weight is None else weight), bias=bias)  # type: ignore[arg-type]
    made = value if weight is None else c.product(value, as_value(c, weight))
    return made if bias is None else c.weighted((made, 1), (as_value(c, bias), 1))


def _along_channels(c: Composer, operand: Operand | None, value: Value) -> Any:
    """A weight with an axis for each of the value's after the channels."""
    if operand is None:
        return None
    if not isinstance(operand, Value | Weight):
        raise Unsupported("its weight is a number")
    return c.reshaped(as_value(c, operand), [-1] + [1] * (value.rank - 2))
