"""Layers and rewrites of them, each wrong in one known way."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Mlp(nn.Module):
    """Calls of other layers, and operations between them."""

    def __init__(self, size: int = 32):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(size), nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.gelu(self.up(self.norm(x)))
        return x + self.down(hidden) * 0.5


class TanhMlp(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        hidden = F.gelu(self.up(self.norm(x)), approximate="tanh")
        return x + self.down(hidden) * 0.5


class TanhByHandMlp(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        z = self.up(self.norm(x))
        inner = math.sqrt(2 / math.pi) * (z + 0.044715 * z.pow(3))
        hidden = 0.5 * z * (1 + torch.tanh(inner))
        return x + self.down(hidden) * 0.5


class ScaledMlp(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        hidden = F.gelu(self.up(self.norm(x)))
        y = self.down(hidden) * 0.6
        return x + y


class WithoutResidual(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        hidden = F.gelu(self.up(self.norm(x)))
        return self.down(hidden) * 0.5


class HonestMlp(Mlp):
    def forward(self, x: Tensor) -> Tensor:
        z = self.up(self.norm(x))
        hidden = 0.5 * z * (1 + torch.erf(z / math.sqrt(2)))
        return torch.add(x, self.down(hidden), alpha=0.5)


class NormByHand(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        scale = torch.rsqrt(centred.square().mean(-1, keepdim=True) + self.eps)
        return centred * scale * self.weight + self.bias


class LinearByHand(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


class LinearWithoutBias(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T


class LinearTransposed(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class Attention(nn.Module):
    """Everything by operations of its own: one layer with a dozen of them."""

    def __init__(self, size: int = 32, heads: int = 4):
        super().__init__()
        self.size, self.heads = size, heads
        self.qkv = nn.Parameter(torch.randn(3 * size, size) / math.sqrt(size))
        self.out = nn.Parameter(torch.randn(size, size) / math.sqrt(size))

    def split(self, x: Tensor) -> list[Tensor]:
        batch, length, _ = x.shape
        parts = F.linear(x, self.qkv).chunk(3, dim=-1)
        return [part.reshape(batch, length, self.heads, -1).transpose(1, 2) for part in parts]

    def joined(self, y: Tensor) -> Tensor:
        return F.linear(y.transpose(1, 2).flatten(2), self.out)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        scores = q @ k.transpose(-1, -2) * (self.size // self.heads) ** -0.5
        weights = scores.softmax(-1)
        return self.joined(weights @ v)


class OtherAxis(Attention):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        scores = q @ k.transpose(-1, -2) * (self.size // self.heads) ** -0.5
        weights = scores.softmax(-2)
        return self.joined(weights @ v)


class HonestFused(Attention):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        return self.joined(F.scaled_dot_product_attention(q, k, v))


class FusedWithOtherScale(Attention):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        return self.joined(F.scaled_dot_product_attention(q, k, v, scale=0.2))


class FusedWithNoise(Attention):
    """Wrong in a way that no hypothesis is about."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        mask = torch.linspace(-3, 3, x.shape[1] ** 2).reshape(x.shape[1], -1).sin()
        return self.joined(F.scaled_dot_product_attention(q, k, v, attn_mask=mask))


class Scored(Attention):
    """The same scores by another order of operations, and the weights wrong after it."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        scores = (q * (self.size // self.heads) ** -0.5) @ k.transpose(-1, -2)
        weights = scores.softmax(-1)
        return self.joined(weights.square() @ v)


class Difference(nn.Module):
    """Several inputs, by position and by name, and several outputs."""

    def forward(self, x: Tensor, other: Tensor, *, scale: Tensor) -> tuple[Tensor, Tensor]:
        return (x - other) * scale, x.tanh()


class Swapped(Difference):
    def forward(self, x: Tensor, other: Tensor, *, scale: Tensor) -> tuple[Tensor, Tensor]:
        return (other - x) * scale, x.tanh()


class WrongSecond(Difference):
    def forward(self, x: Tensor, other: Tensor, *, scale: Tensor) -> tuple[Tensor, Tensor]:
        return (x - other) * scale, x.sigmoid()


class Root(nn.Module):
    """A model around a layer that takes several inputs."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(32, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        one, other = self.layer(x, y, scale=x.mean(-1, keepdim=True))
        return self.head(one + other)


class Recurring(nn.Module):
    """One layer that is called twice."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(self.layer(x).tanh())


class WritesInPlace(nn.Module):
    """Writes to values, to a part of one, and to a buffer."""

    def __init__(self, slope: float):
        super().__init__()
        self.fc, self.slope = nn.Linear(32, 32), slope
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        y = self.fc(x)
        y += x
        y[..., 0] = 1.0
        return F.leaky_relu_(y, self.slope) * self.calls
