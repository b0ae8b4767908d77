"""Layers in 16 bits, and values that are not finite."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

from .case import Case, Fn, trained


def narrow(dtype: torch.dtype) -> Iterator[Case]:
    """Layers in 16 bits, and what mixes such with others."""
    x, image = torch.randn(3, 4, 8).to(dtype), torch.randn(2, 4, 6, 6).to(dtype)
    heads = torch.randn(2, 2, 5, 8).to(dtype)
    for model in (
        *(
            nn.Linear(8, 6),
            nn.LayerNorm(8),
            nn.RMSNorm(8),
            nn.GELU(),
            nn.SiLU(),
            nn.Softmax(-1),
            nn.LogSoftmax(1),
        ),
        Fn(
            lambda a: (
                a.float() + a,
                a * 2 + 1,
                a / 3,
                a.sum(-1),
                a.mean(1),
                a.var(-1),
                a.std(0),
                a.logsumexp(-1),
            )
        ),
        Fn(
            lambda a: (
                a @ a.mT,
                a.softmax(-1, dtype=torch.float32),
                a + torch.tensor(1.5, dtype=torch.float64),
                a > 0,
            )
        ),
    ):
        yield model.to(dtype), (x,)
    yield nn.Conv2d(4, 6, 3, padding=1).to(dtype), (image,)
    yield trained(nn.BatchNorm2d(4), 2, 4, 6, 6).to(dtype), (image,)
    yield nn.GroupNorm(2, 4).to(dtype), (image,)
    yield nn.AvgPool2d(2), (image,)
    yield Fn(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True)), (heads,)


def not_finite() -> Iterator[Case]:
    odd = torch.tensor([[1.0, float("nan"), 2.0], [float("inf"), -1.0, 0.0], [-float("inf")] * 3])
    image = torch.randn(1, 2, 4, 4)
    image[0, 0, 1, 1] = float("nan")
    for function in (
        lambda a: (
            a.relu(),
            a.softmax(-1),
            a.log_softmax(-1),
            a.logsumexp(-1),
            a.max(1),
            a.sum(0),
            a.mean(1),
        ),
        lambda a: (
            a / 0,
            0 / a,
            a * 0,
            a.clamp(-1, 1),
            torch.maximum(a, a.flip(0)),
            a.amax(0),
            a.isnan(),
            a == a,
        ),
        lambda a: (a.sort(1), a.argmax(1), torch.where(a > 0, a, 0.0), a.nan_to_num(), a.var(1), a @ a),
    ):
        yield Fn(function), (odd,)
    yield nn.MaxPool2d(2), (image,)
    yield nn.AvgPool2d(2), (image,)
    seen = torch.ones(3, 3, dtype=torch.bool)
    seen[1] = False
    q = torch.randn(1, 3, 4)
    yield Fn(F.scaled_dot_product_attention), (q, q, q, seen)
