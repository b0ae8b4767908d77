"""A model that takes noise out of pictures, told how much there is and what they show."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from .entries import Subject, in_zoo


def waves(times: torch.Tensor, width: int) -> torch.Tensor:
    """Sines and cosines of each time, at frequencies from 1 down to 1e-4."""
    frequencies = torch.exp(torch.arange(width // 2) * (-math.log(1e4) / (width // 2)))
    angles = times[:, None].float() * frequencies[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, time_width: int):
        super().__init__()
        self.norm1, self.conv1 = (
            nn.GroupNorm(4, channels_in),
            nn.Conv2d(channels_in, channels_out, 3, padding=1),
        )
        self.norm2, self.conv2 = (
            nn.GroupNorm(4, channels_out),
            nn.Conv2d(channels_out, channels_out, 3, padding=1),
        )
        self.time = nn.Linear(time_width, channels_out)
        same = channels_in == channels_out
        self.skip = nn.Identity() if same else nn.Conv2d(channels_in, channels_out, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class CrossAttention(nn.Module):
    """Every pixel looks at the tokens of the text."""

    def __init__(self, channels: int, text_width: int, heads: int = 2):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.attention = nn.MultiheadAttention(
            channels, heads, kdim=text_width, vdim=text_width, batch_first=True
        )

    def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        seen, _ = self.attention(pixels, text, text, need_weights=False)
        return x + seen.transpose(1, 2).reshape(x.shape)


class DiffusionUnet(nn.Module):
    def __init__(self, width: int = 16, text_width: int = 24):
        super().__init__()
        self.width = width
        self.embed = nn.Sequential(nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width))
        self.stem = nn.Conv2d(4, width, 3, padding=1)
        self.down1, self.pool1 = ResBlock(width, width, 4 * width), nn.Conv2d(width, width, 3, 2, padding=1)
        self.down2, self.pool2 = (
            ResBlock(width, 2 * width, 4 * width),
            nn.Conv2d(2 * width, 2 * width, 3, 2, 1),
        )
        self.middle1, self.middle2 = (ResBlock(2 * width, 2 * width, 4 * width) for _ in range(2))
        self.attention = CrossAttention(2 * width, text_width)
        self.up2 = ResBlock(4 * width, width, 4 * width)
        self.up1 = ResBlock(2 * width, width, 4 * width)
        self.out = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 4, 3, padding=1))

    def forward(self, x: torch.Tensor, times: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        time = self.embed(waves(times, self.width))
        first = self.down1(self.stem(x), time)
        second = self.down2(self.pool1(first), time)
        h = self.middle1(self.pool2(second), time)
        h = self.middle2(self.attention(h, text), time)
        h = self.up2(torch.cat([F.interpolate(h, scale_factor=2.0), second], dim=1), time)
        h = self.up1(torch.cat([F.interpolate(h, scale_factor=2.0), first], dim=1), time)
        return self.out(h)


@in_zoo
def diffusion_unet() -> Subject:
    return DiffusionUnet(), (torch.randn(2, 4, 16, 16), torch.tensor([3, 741]), torch.randn(2, 7, 24))
