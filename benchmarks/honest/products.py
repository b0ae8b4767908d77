"""Products of matrices: other orders of the same sum, and other operations that compute it."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from .rewriting import operation

LARGE = 2**23
"""Elements of an intermediate tensor above which a rewriting would take too long."""


def fits(x: Tensor, weight: Tensor) -> bool:
    """Whether every single product of a linear layer can be held at once."""
    return x[..., 0].numel() * weight.numel() <= LARGE


def with_bias(y: Tensor, bias: Tensor | None) -> Tensor:
    return y if bias is None else y + bias


def summed(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


@operation("linear: terms in reverse", "linear")
def reversed_terms(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x.flip(-1), weight.flip(-1), bias)


@operation("linear: terms shuffled", "linear")
def shuffled_terms(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    order = torch.randperm(weight.shape[1], generator=torch.Generator().manual_seed(0))
    return F.linear(x[..., order], weight[:, order], bias)


def in_chunks(x: Tensor, weight: Tensor, bias: Tensor | None, count: int) -> Tensor:
    products = [F.linear(*parts) for parts in zip(x.chunk(count, -1), weight.chunk(count, -1))]
    return with_bias(summed(products), bias)


@operation("linear: sum of 2 chunks", "linear")
def two_chunks(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return in_chunks(x, weight, bias, 2)


@operation("linear: sum of 8 chunks", "linear")
def eight_chunks(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return in_chunks(x, weight, bias, 8)


@operation("linear: blocks of 16", "linear")
def blocks(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return in_chunks(x, weight, bias, math.ceil(weight.shape[1] / 16))


@operation("linear: pairwise sums", "linear")
def pairwise(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if not fits(x, weight):
        return None
    terms = x.unsqueeze(-2) * weight
    while terms.shape[-1] > 1:
        if terms.shape[-1] % 2:
            terms = F.pad(terms, (0, 1))
        terms = terms[..., ::2] + terms[..., 1::2]
    return with_bias(terms.squeeze(-1).contiguous(), bias)


@operation("linear: one term after the other", "linear")
def in_sequence(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if weight.shape[1] > 1024:
        return None
    total = torch.zeros(*x.shape[:-1], weight.shape[0], dtype=x.dtype)
    for value, column in zip(x.unbind(-1), weight.unbind(1)):
        total = torch.addcmul(total, value.unsqueeze(-1), column)
    return with_bias(total, bias)


@operation("linear: sum of products", "linear")
def sum_of_products(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    return with_bias((x.unsqueeze(-2) * weight).sum(-1), bias) if fits(x, weight) else None


@operation("linear: transposed product", "linear")
def transposed(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = (weight @ x.flatten(0, -2).T).T.contiguous()
    return with_bias(rows.view(*x.shape[:-1], -1), bias)


@operation("linear: einsum", "linear")
def by_einsum(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return with_bias(torch.einsum("...i,oi->...o", x, weight), bias)


@operation("linear: bmm", "linear")
def by_bmm(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if x.ndim != 3:
        return None
    return with_bias(torch.bmm(x, weight.T.expand(x.shape[0], -1, -1)), bias)


@operation("linear: bias added afterwards", "linear")
def bias_afterwards(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    return F.linear(x, weight) + bias if bias is not None else None


@operation("linear: bias as a column of the weight", "linear")
def bias_as_a_column(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if bias is None:
        return None
    ones = torch.ones_like(x[..., :1])
    return F.linear(torch.cat([x, ones], -1), torch.cat([weight, bias[:, None]], -1))


@operation("linear: weight transposed beforehand", "linear")
def weight_transposed(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return with_bias(torch.matmul(x, weight.T.contiguous()), bias)


@operation("linear: rows of the weight in blocks", "linear")
def rows_in_blocks(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return with_bias(torch.cat([F.linear(x, rows) for rows in torch.split(weight, 16)], -1), bias)


@operation("linear: 1x1 convolution", "linear")
def as_convolution(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    columns = F.conv1d(x.reshape(-1, x.shape[-1], 1), weight[:, :, None], bias)
    return columns.reshape(*x.shape[:-1], -1)


@operation("linear: scale folded into the weight", "linear")
def scale_folded(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x * 3, weight / 3, bias)


@operation("linear: each sample alone", "linear")
def each_sample(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if x.shape[0] < 2:
        return None
    return torch.cat([F.linear(sample, weight, bias) for sample in torch.split(x, 1)])


@operation("linear: float64 inside", "linear")
def in_float64(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x.double(), weight.double(), None if bias is None else bias.double()).to(x.dtype)


@operation("matmul: terms in reverse", "matmul")
def reversed_matmul(left: Tensor, right: Tensor) -> Tensor | None:
    return torch.matmul(left.flip(-1), right.flip(-2)) if right.ndim > 1 else None


@operation("matmul: sum of products", "matmul")
def matmul_of_products(left: Tensor, right: Tensor) -> Tensor | None:
    if left.ndim < 2 or right.ndim < 2 or left.numel() * right.shape[-1] > LARGE:
        return None
    return (left.unsqueeze(-2) * right.mT.unsqueeze(-3)).sum(-1)


@operation("matmul: transposed product", "matmul")
def matmul_transposed(left: Tensor, right: Tensor) -> Tensor | None:
    if left.ndim < 2 or right.ndim < 2:
        return None
    return torch.matmul(right.mT, left.mT).mT


@operation("matmul: sum of 4 chunks", "matmul")
def matmul_in_chunks(left: Tensor, right: Tensor) -> Tensor | None:
    if left.ndim < 2 or right.ndim < 2:
        return None
    return summed([torch.matmul(*parts) for parts in zip(left.chunk(4, -1), right.chunk(4, -2))])
