"""A language model of selective state spaces, in the manner of Mamba, in plain PyTorch that compiles to one graph.

In: token ids `[batch, length]`. Out: logits `[batch, length, vocabulary]`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class SsmConfig:
    """The default has 27 million parameters."""

    vocabulary: int = 12_800
    width: int = 512
    layers: int = 12
    expansion: int = 2
    states: int = 16
    """Numbers that each channel keeps from one token to the next."""
    kernel: int = 4

    @property
    def inner(self) -> int:
        return self.expansion * self.width

    @property
    def step_rank(self) -> int:
        return math.ceil(self.width / 16)


class SelectiveSsm(nn.Module):
    def __init__(self, config: SsmConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        logits: Tensor = self.head(self.norm(hidden))
        return logits


class Block(nn.Module):
    def __init__(self, config: SsmConfig) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.width, eps=1e-5)
        self.mixer = Mixer(config)

    def forward(self, hidden: Tensor) -> Tensor:
        mixed: Tensor = self.mixer(self.norm(hidden))
        return hidden + mixed


class Mixer(nn.Module):
    """Mixes along the length: a short convolution, then a scan whose rates depend on the tokens, then a gate."""

    def __init__(self, config: SsmConfig) -> None:
        super().__init__()
        self.states, self.step_rank = config.states, config.step_rank
        self.in_proj = nn.Linear(config.width, 2 * config.inner, bias=False)
        self.conv = nn.Conv1d(
            config.inner, config.inner, config.kernel, padding=config.kernel - 1, groups=config.inner
        )
        self.x_proj = nn.Linear(config.inner, config.step_rank + 2 * config.states, bias=False)
        self.step_proj = nn.Linear(config.step_rank, config.inner)
        rates = torch.arange(1, config.states + 1, dtype=torch.float32)
        self.log_rates = nn.Parameter(rates.log().repeat(config.inner, 1))
        self.skip = nn.Parameter(torch.ones(config.inner))
        self.out_proj = nn.Linear(config.inner, config.width, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        x, gate = self.in_proj(hidden).chunk(2, dim=-1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., : hidden.shape[1]].transpose(1, 2))
        mixed: Tensor = self.out_proj((self._scanned(x) + x * self.skip) * F.silu(gate))
        return mixed

    def _scanned(self, x: Tensor) -> Tensor:
        step, entering, leaving = self.x_proj(x).split([self.step_rank, self.states, self.states], dim=-1)
        step = F.softplus(self.step_proj(step)).unsqueeze(-1)
        kept = torch.exp(-step * self.log_rates.exp())
        added = step * entering.unsqueeze(-2) * x.unsqueeze(-1)
        return torch.sum(scan(kept, added) * leaving.unsqueeze(-2), -1)


def scan(kept: Tensor, added: Tensor) -> Tensor:
    """`state[t] = kept[t] * state[t - 1] + added[t]` along axis 1, in as many steps as its length has binary digits."""
    distance, length = 1, kept.shape[1]
    while distance < length:
        padding = (0, 0) * (kept.ndim - 2) + (distance, 0)
        earlier = F.pad(added[:, :-distance], padding)
        added = added + kept * earlier
        kept = kept * F.pad(kept[:, :-distance], padding, value=1.0)
        distance *= 2
    return added
