"""Small models whose tensors hold numbers of several scales: fill values, outliers, parts of other magnitude.

A fault among the small numbers of such a tensor is nothing beside its large ones. The ill-conditioned ones lose digits
in the original, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH = 32
"""Of a head: scores are scaled by 0.17677."""
LENGTH = 12


class MaskedAttention(nn.Module):
    """Causal attention whose scores are filled with one large number before a layer that is a softmax."""

    def __init__(self, fill: float) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.softmax = nn.Softmax(dim=-1)
        self.fill = fill

    def forward(self, x: Tensor) -> Tensor:
        scores = self.q(x) @ self.k(x).transpose(-2, -1) * WIDTH**-0.5
        causal = torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool))
        weights = self.softmax(scores.masked_fill(~causal, self.fill))
        y: Tensor = self.out(weights @ self.v(x))
        return y


class Scores(nn.Module):
    """Scores with a mask of bools that is handed to the layer."""

    def __init__(self, heads: int = 2) -> None:
        super().__init__()
        self.q, self.k, self.heads = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), heads

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        q, k = (layer(x).view(-1, LENGTH, self.heads, WIDTH // self.heads) for layer in (self.q, self.k))
        scores = q.transpose(1, 2) @ k.permute(0, 2, 3, 1) * (WIDTH // self.heads) ** -0.5
        return torch.where(allowed, scores, torch.finfo(scores.dtype).min)


class Bias(nn.Module):
    """Adds a mask of numbers that is handed to the layer, and a bias of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(LENGTH, LENGTH) * 0.3)

    def forward(self, scores: Tensor, mask: Tensor) -> Tensor:
        return scores * 0.5 + self.bias + mask


class MasksThroughLayers(nn.Module):
    """Masks of bools and of numbers on their way through layers."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.bias, self.softmax = Scores(), Bias(), nn.Softmax(dim=-1)
        self.value, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, allowed: Tensor, mask: Tensor) -> Tensor:
        sharp = self.softmax(self.scores(x, allowed))
        value = self.value(x).view(-1, LENGTH, 2, WIDTH // 2).transpose(1, 2)
        soft = self.softmax(self.bias(sharp @ value @ value.transpose(-2, -1), mask))
        y: Tensor = self.out((soft @ value).transpose(1, 2).reshape(x.shape))
        return y


class Outliers(nn.Module):
    """A few channels are 1e3 to 1e6 times as large as the others, as in activations of language models."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.up, self.mix = nn.Linear(size, size), nn.Linear(size, size)
        self.gain, self.norm, self.head = (
            nn.Parameter(torch.rand(size) + 0.5),
            nn.LayerNorm(size),
            nn.Linear(size, 16),
        )
        with torch.no_grad():
            for channel, factor in ((5, 1e3), (17, 1e4), (40, 1e6)):
                self.up.weight[channel] *= factor
                self.mix.weight[:, channel] /= factor

    def forward(self, x: Tensor) -> Tensor:
        large = self.up(x)
        y: Tensor = self.head(self.norm(x + F.silu(self.mix(large)) * self.gain))
        return y


class OutlierPictures(nn.Module):
    """The same in pictures: some channels of a convolution are large, and scaled back one by one."""

    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, size, 3, padding=1)
        self.back = nn.Conv2d(size, size, 1, groups=size)
        self.head = nn.Conv2d(size, 8, 3, stride=2)
        with torch.no_grad():
            for channel, factor in ((2, 1e3), (9, 1e5)):
                self.conv.weight[channel] *= factor
                self.back.weight[channel] /= factor

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(F.relu(self.back(self.conv(x))))
        return y


class Parts(nn.Module):
    """Two parts of one tensor, one of them a million times as large."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.first(x) * 1e6, torch.tanh(self.second(x))], dim=-1)


class MixedScales(nn.Module):
    """Parts of other magnitude in one tensor, told apart again afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.parts, self.large, self.small = Parts(), nn.Linear(WIDTH, 16), nn.Linear(WIDTH, 16)

    def forward(self, x: Tensor) -> Tensor:
        large, small = self.parts(x).split(WIDTH, dim=-1)
        y: Tensor = self.large(large / 1e6) + self.small(small)
        return y


class NearlyConstant(nn.Module):
    """A layer norm of rows whose elements are nearly equal, so that the original has few digits left."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm, self.out = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(self.norm(100 + self.inner(x) * 1e-2))
        return y


class Cancelling(nn.Module):
    """A large number is added and taken away again, which leaves a sixteenth of a unit of what was there."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.offset = nn.Linear(WIDTH, WIDTH), Offset()
        self.out = nn.Linear(WIDTH, 16)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(self.offset(self.inner(x)))
        return y


class Offset(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x + 1e6) - 1e6


def rows() -> Tensor:
    return torch.randn(2, LENGTH, WIDTH)


def masks() -> tuple[Tensor, Tensor]:
    """A causal mask of bools, and one of numbers that hides the last positions of the second text."""
    hidden = torch.zeros(2, 1, 1, LENGTH)
    hidden[1, ..., 9:] = torch.finfo(torch.float32).min
    return torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool)), hidden


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {
    "masked_by_a_billion": lambda: (MaskedAttention(-1e9), (rows(),)),
    "masked_by_the_least": lambda: (MaskedAttention(torch.finfo(torch.float32).min), (rows(),)),
    "masks_through_layers": lambda: (MasksThroughLayers(), (rows(), *masks())),
    "outliers": lambda: (Outliers(), (torch.randn(4, 16, 64),)),
    "outlier_pictures": lambda: (OutlierPictures(), (torch.randn(2, 3, 16, 16),)),
    "mixed_scales": lambda: (MixedScales(), (rows(),)),
    "nearly_constant": lambda: (NearlyConstant(), (rows(),)),
    "cancelling": lambda: (Cancelling(), (rows(),)),
}
