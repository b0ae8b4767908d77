"""Softmax and activations by their formulas."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from .rewriting import operation


@operation("softmax: by hand", "softmax")
def softmax(x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    x = x.to(dtype or x.dtype)
    powers = (x - x.amax(dim, keepdim=True)).exp()
    return powers / powers.sum(dim, keepdim=True)


@operation("softmax: multiplied by the inverse", "softmax")
def softmax_by_inverse(
    x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    x = x.to(dtype or x.dtype)
    powers = (x - x.amax(dim, keepdim=True)).exp()
    return powers * powers.sum(dim, keepdim=True).reciprocal()


@operation("softmax: by logsumexp", "softmax")
def softmax_by_logsumexp(
    x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    x = x.to(dtype or x.dtype)
    return (x - x.logsumexp(dim, keepdim=True)).exp()


@operation("softmax: powers of 2", "softmax")
def softmax_of_two(
    x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    x = x.to(dtype or x.dtype)
    powers = ((x - x.amax(dim, keepdim=True)) * math.log2(math.e)).exp2()
    return powers / powers.sum(dim, keepdim=True)


@operation("softmax: float64 inside", "softmax")
def softmax_in_float64(
    x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    return x.double().softmax(dim).to(dtype or x.dtype)


@operation("log softmax: by logsumexp", "log_softmax")
def log_softmax(x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> Tensor:
    return x - x.logsumexp(dim, keepdim=True)


@operation("log softmax: by hand", "log_softmax")
def log_softmax_by_hand(
    x: Tensor, dim: int = -1, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> Tensor:
    centred = x - x.amax(dim, keepdim=True)
    return centred - centred.exp().sum(dim, keepdim=True).log()


@operation("gelu: by its formula", "gelu")
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    if approximate == "tanh":
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))))
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


@operation("gelu: by erfc", "gelu")
def gelu_by_erfc(x: Tensor, approximate: str = "none") -> Tensor | None:
    return 0.5 * x * torch.erfc(-x * math.sqrt(0.5)) if approximate == "none" else None


@operation("gelu: float64 inside", "gelu")
def gelu_in_float64(x: Tensor, approximate: str = "none") -> Tensor:
    return F.gelu(x.double(), approximate=approximate).to(x.dtype)


@operation("silu: x times sigmoid", "silu")
def silu(x: Tensor, inplace: bool = False) -> Tensor:
    return x * torch.sigmoid(x)


@operation("silu: x / (1 + exp(-x))", "silu")
def silu_by_exp(x: Tensor, inplace: bool = False) -> Tensor:
    return x / (1 + torch.exp(-x))


@operation("sigmoid: 1 / (1 + exp(-x))", "sigmoid")
def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


@operation("softplus: log1p of exp(-|x|)", "softplus")
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return (x * beta).clamp(min=0) / beta + torch.log1p(torch.exp(-(x * beta).abs())) / beta


@operation("softplus: logaddexp", "softplus")
def softplus_by_logaddexp(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    return torch.logaddexp(x * beta, torch.zeros(1, dtype=x.dtype)) / beta


@operation("relu: clamp", "relu", arithmetic="eager")
def relu(x: Tensor, inplace: bool = False) -> Tensor | None:
    return None if inplace else torch.where(x > 0, x, 0.0)
