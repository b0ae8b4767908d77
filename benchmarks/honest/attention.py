"""Attention: fused by other kernels, spelled out, in chunks, masked by other numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from .patching import Replacement
from .rewriting import add_patch


@dataclass(frozen=True)
class Attention:
    """The arguments of one call, keys and values repeated for their groups of queries."""

    query: Tensor
    key: Tensor
    value: Tensor
    allowed: Tensor | None
    """Which keys a query sees, if a mask of bools says it or attention is causal."""
    bias: Tensor | None
    """What is added to the scores, if the mask is a mask of numbers."""
    scale: float

    def scores(self, fill: float = -math.inf) -> Tensor:
        return self.masked((self.query @ self.key.mT) * self.scale, fill)

    def masked(self, scores: Tensor, fill: float = -math.inf) -> Tensor:
        if self.bias is not None:
            scores = scores + self.bias
        return scores if self.allowed is None else scores.masked_fill(~self.allowed, fill)


Algorithm = Callable[[Attention], Tensor | None]


def replacement(algorithm: Algorithm) -> Replacement:
    """The algorithm in place of scaled dot product attention."""

    def instead(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor | None:
        if dropout_p:
            return None
        if enable_gqa:
            repeats = query.shape[-3] // key.shape[-3]
            key, value = (tensor.repeat_interleave(repeats, -3) for tensor in (key, value))
        is_bool = attn_mask is not None and attn_mask.dtype == torch.bool
        allowed = attn_mask if is_bool else None
        if is_causal:
            allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        bias = None if is_bool else attn_mask
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        return algorithm(Attention(query, key, value, allowed, bias, factor))

    return instead


def attention(kind: str) -> Callable[[Algorithm], Algorithm]:
    """Registers an algorithm for scaled dot product attention."""

    def decorate(algorithm: Algorithm) -> Algorithm:
        add_patch(kind, {"scaled_dot_product_attention": replacement(algorithm)})
        return algorithm

    return decorate


@attention("attention: spelled out")
def spelled_out(call: Attention) -> Tensor:
    return call.scores().softmax(-1) @ call.value


@attention("attention: masked by -1e9")
def masked_by_a_billion(call: Attention) -> Tensor | None:
    return call.scores(-1e9).softmax(-1) @ call.value if call.allowed is not None else None


@attention("attention: masked by the least float")
def masked_by_the_least(call: Attention) -> Tensor | None:
    if call.allowed is None:
        return None
    return call.scores(torch.finfo(call.query.dtype).min).softmax(-1) @ call.value


@attention("attention: mask of bools as numbers")
def added_mask(call: Attention) -> Tensor | None:
    if call.allowed is None:
        return None
    bias = torch.zeros(call.allowed.shape, dtype=call.query.dtype).masked_fill(~call.allowed, -math.inf)
    return F.scaled_dot_product_attention(call.query, call.key, call.value, bias, scale=call.scale)


@attention("attention: by logsumexp")
def by_logsumexp(call: Attention) -> Tensor:
    scores = call.scores()
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() @ call.value


@attention("attention: divided after the product")
def divided_afterwards(call: Attention) -> Tensor:
    scores = call.scores()
    weights = (scores - scores.amax(-1, keepdim=True)).exp()
    return (weights @ call.value) / weights.sum(-1, keepdim=True)


@attention("attention: scale in the query")
def scale_in_the_query(call: Attention) -> Tensor:
    scores = call.masked((call.query * call.scale) @ call.key.mT)
    return scores.softmax(-1) @ call.value


@attention("attention: scale in query and key")
def scale_in_both(call: Attention) -> Tensor:
    root = math.sqrt(call.scale)
    return call.masked((call.query * root) @ (call.key * root).mT).softmax(-1) @ call.value


@attention("attention: einsum")
def by_einsum(call: Attention) -> Tensor:
    scores = call.masked(torch.einsum("...qd,...kd->...qk", call.query, call.key) * call.scale)
    return torch.einsum("...qk,...kd->...qd", scores.softmax(-1), call.value)


@attention("attention: each head alone")
def each_head(call: Attention) -> Tensor | None:
    if call.query.ndim != 4 or call.query.shape[1] < 2:
        return None
    scores = torch.stack([q @ k.mT * call.scale for q, k in zip(call.query.unbind(1), call.key.unbind(1))], 1)
    weights = call.masked(scores).softmax(-1)
    return torch.stack([w @ v for w, v in zip(weights.unbind(1), call.value.unbind(1))], 1)


@attention("attention: online softmax over chunks of 4 keys")
def online(call: Attention) -> Tensor:
    """The largest score, the sum and the result are kept up to date from chunk to chunk."""
    scores = call.scores(torch.finfo(call.query.dtype).min)
    most = torch.full_like(scores[..., :1], -math.inf)
    total, result = torch.zeros_like(most), torch.zeros_like(call.query[..., :1] * call.value[..., :1, :])
    for part, value in zip(torch.split(scores, 4, -1), torch.split(call.value, 4, -2)):
        larger = torch.maximum(most, part.amax(-1, keepdim=True))
        weights, shrink = (part - larger).exp(), (most - larger).exp()
        total = total * shrink + weights.sum(-1, keepdim=True)
        result = result * shrink + weights @ value
        most = larger
    return result / total


@attention("attention: float64 inside")
def in_float64(call: Attention) -> Tensor:
    scores = call.masked((call.query.double() @ call.key.double().mT) * call.scale)
    return (scores.softmax(-1) @ call.value.double()).to(call.query.dtype)


def by_backend(call: Attention, backend: SDPBackend) -> Tensor:
    mask = call.bias if call.allowed is None else call.allowed
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(call.query, call.key, call.value, mask, scale=call.scale)


@attention("attention: math backend")
def by_math(call: Attention) -> Tensor:
    return by_backend(call, SDPBackend.MATH)


@attention("attention: flash backend")
def by_flash(call: Attention) -> Tensor | None:
    sizes = {tensor.shape[-1] for tensor in (call.query, call.value)}
    if call.query.ndim != 4 or len(sizes) > 1 or (call.bias is not None and call.bias.requires_grad):
        return None
    return by_backend(call, SDPBackend.FLASH_ATTENTION)
