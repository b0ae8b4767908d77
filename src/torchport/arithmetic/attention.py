"""Fused attention and its gradient, written out, in a class of arithmetic."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.arithmetic.sums import product, total


def forward(
    arithmetic: Arithmetic,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """What `aten._scaled_dot_product_flash_attention_for_cpu` returns: the output, and the logarithm of the sums."""
    _must_keep_all(dropout_p)
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    scores = _scores(arithmetic, query, key, is_causal, attn_mask, scale)
    largest = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - largest)
    sums = total(weights, [-1], arithmetic).unsqueeze(-1)
    result = product(weights, value.float(), arithmetic) / sums
    return result.to(query.dtype), (sums.log() + largest).squeeze(-1)


def backward(
    arithmetic: Arithmetic,
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    _must_keep_all(dropout_p)
    groups = key.shape[1]
    key, value = _for_each_head(query, key), _for_each_head(query, value)
    scores = _scores(arithmetic, query, key, is_causal, attn_mask, scale)
    weights = torch.exp(scores - logsumexp.unsqueeze(-1))
    wide = gradient.float()
    of_weights = product(wide, value.float().transpose(-1, -2), arithmetic)
    shared = total(wide * out.float(), [-1], arithmetic).unsqueeze(-1)
    of_scores = weights * (of_weights - shared) * _scale(query, scale)
    return (
        product(of_scores, key.float(), arithmetic).to(query.dtype),
        _joined(product(of_scores.transpose(-1, -2), query.float(), arithmetic), groups).to(key.dtype),
        _joined(product(weights.transpose(-1, -2), wide, arithmetic), groups).to(value.dtype),
    )


def _must_keep_all(dropout_p: float) -> None:
    """What dropout would leave out is not known here, and a floor without it would be wrong."""
    if dropout_p:
        raise NotImplementedError("attention with dropout is not emulated")


def _for_each_head(query: Tensor, shared: Tensor) -> Tensor:
    """Keys or values that several heads share, once for each head."""
    return shared.repeat_interleave(query.shape[1] // shared.shape[1], 1)


def _joined(gradient: Tensor, groups: int) -> Tensor:
    """The gradient of what several heads share."""
    batch, heads, *rest = gradient.shape
    return gradient.reshape(batch, groups, heads // groups, *rest).sum(2)


def _scores(
    arithmetic: Arithmetic,
    query: Tensor,
    key: Tensor,
    is_causal: bool,
    mask: Tensor | None,
    scale: float | None,
) -> Tensor:
    scores = product(query.float(), key.float().transpose(-1, -2), arithmetic) * _scale(query, scale)
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores if mask is None else scores + mask.float()


def _scale(query: Tensor, scale: float | None) -> float:
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale
