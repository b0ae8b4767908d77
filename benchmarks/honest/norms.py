"""Norms by hand: in one pass, in two, with the root below or before, folded into a scale and a shift."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from .rewriting import add_patch, operation

Standardised = Callable[[Tensor, float], "Tensor | None"]


def affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def layer_norm(kind: str) -> Callable[[Standardised], Standardised]:
    """Registers a way to standardise rows, for layer norms."""

    def decorate(standardised: Standardised) -> Standardised:
        def replacement(
            x: Tensor,
            normalized_shape: Sequence[int],
            weight: Tensor | None = None,
            bias: Tensor | None = None,
            eps: float = 1e-5,
        ) -> Tensor | None:
            rows = standardised(x.flatten(-len(normalized_shape)), eps)
            return None if rows is None else affine(rows.view(x.shape), weight, bias)

        add_patch(kind, {"layer_norm": replacement})
        return standardised

    return decorate


@layer_norm("layer norm: two passes, rsqrt")
def two_passes(x: Tensor, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)


@layer_norm("layer norm: two passes, divided by the root")
def divided(x: Tensor, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + eps)


@layer_norm("layer norm: var()")
def by_var(x: Tensor, eps: float) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()


@layer_norm("layer norm: one pass")
def one_pass(x: Tensor, eps: float) -> Tensor | None:
    """Not for rows that are nearly constant: what it computes there is nothing but rounding."""
    mean, squares = x.mean(-1, keepdim=True), x.square().mean(-1, keepdim=True)
    if (mean.square() > 100 * x.var(-1, keepdim=True)).any():
        return None
    return (x - mean) * torch.rsqrt(squares - mean.square() + eps)


@layer_norm("layer norm: running mean and variance")
def welford(x: Tensor, eps: float) -> Tensor:
    mean, spread = torch.zeros_like(x[..., :1]), torch.zeros_like(x[..., :1])
    for count, value in enumerate(torch.split(x, 1, -1), 1):
        before = value - mean
        mean = mean + before / count
        spread = spread + before * (value - mean)
    return (x - mean) * torch.rsqrt(spread / x.shape[-1] + eps)


@layer_norm("layer norm: means by matmul")
def by_matmul(x: Tensor, eps: float) -> Tensor:
    average = torch.full((x.shape[-1], 1), 1 / x.shape[-1], dtype=x.dtype)
    centred = x - x @ average
    return centred * torch.rsqrt(centred.square() @ average + eps)


@layer_norm("layer norm: scale and shift")
def as_scale_and_shift(x: Tensor, eps: float) -> Tensor:
    scale = torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + eps)
    return x * scale + -x.mean(-1, keepdim=True) * scale


@layer_norm("layer norm: float64 inside")
def in_float64(x: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x.double(), x.shape[-1:], eps=eps).to(x.dtype)


def per_channel(values: Tensor | None, x: Tensor) -> Tensor | None:
    return None if values is None else values.view(1, -1, *[1] * (x.ndim - 2))


@operation("group norm: by reshape", "group_norm")
def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    rows = x.reshape(x.shape[0], num_groups, -1)
    variance, mean = torch.var_mean(rows, -1, unbiased=False, keepdim=True)
    y = ((rows - mean) / torch.sqrt(variance + eps)).view(x.shape)
    return affine(y, per_channel(weight, x), per_channel(bias, x))


@operation("group norm: by layer norm", "group_norm")
def by_layer_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    rows = x.reshape(x.shape[0], num_groups, -1)
    y = F.layer_norm(rows, rows.shape[-1:], eps=eps).view(x.shape)
    return affine(y, per_channel(weight, x), per_channel(bias, x))


Normalised = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, float], Tensor]


def batch_norm(kind: str) -> Callable[[Normalised], Normalised]:
    """Registers a formula for batch norms with statistics that are known; all but `x` are one number a channel."""

    def decorate(formula: Normalised) -> Normalised:
        def replacement(
            x: Tensor,
            running_mean: Tensor | None,
            running_var: Tensor | None,
            weight: Tensor | None = None,
            bias: Tensor | None = None,
            training: bool = False,
            momentum: float = 0.1,
            eps: float = 1e-5,
        ) -> Tensor | None:
            given = (running_mean, running_var, weight, bias)
            if training or any(tensor is None for tensor in given):
                return None
            mean, variance, gain, shift = (per_channel(tensor, x) for tensor in given)
            assert mean is not None and variance is not None and gain is not None and shift is not None
            return formula(x, mean, variance, gain, shift, eps)

        add_patch(kind, {"batch_norm": replacement})
        return formula

    return decorate


@batch_norm("batch norm: by the formula")
def by_the_formula(
    x: Tensor, mean: Tensor, variance: Tensor, gain: Tensor, shift: Tensor, eps: float
) -> Tensor:
    return (x - mean) / torch.sqrt(variance + eps) * gain + shift


@batch_norm("batch norm: scale and shift")
def scale_and_shift(
    x: Tensor, mean: Tensor, variance: Tensor, gain: Tensor, shift: Tensor, eps: float
) -> Tensor:
    scale = gain * torch.rsqrt(variance + eps)
    return x * scale + (shift - mean * scale)


@batch_norm("batch norm: depthwise convolution")
def as_convolution(
    x: Tensor, mean: Tensor, variance: Tensor, gain: Tensor, shift: Tensor, eps: float
) -> Tensor:
    scale = (gain * torch.rsqrt(variance + eps)).flatten()
    weight = scale.view(-1, *[1] * (x.ndim - 1))
    convolve = F.conv2d if x.ndim == 4 else F.conv1d
    return convolve(x, weight, (shift.flatten() - mean.flatten() * scale), groups=x.shape[1])


@operation("rsqrt: 1 / sqrt", "rsqrt")
def one_by_the_root(x: Tensor) -> Tensor:
    return 1 / torch.sqrt(x)


@operation("rsqrt: power of -1/2", "rsqrt")
def by_power(x: Tensor) -> Tensor:
    return x.pow(-0.5)


@operation("rms norm: by hand", "rms_norm")
def rms_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    least = torch.finfo(x.dtype).eps if eps is None else eps
    return affine(x * torch.rsqrt(x.square().mean(-1, keepdim=True) + least), weight, None)


@operation("rms norm: by the vector norm", "rms_norm")
def by_vector_norm(
    x: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    least = torch.finfo(x.dtype).eps if eps is None else eps
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return affine(x / torch.sqrt(length.square() / x.shape[-1] + least), weight, None)
