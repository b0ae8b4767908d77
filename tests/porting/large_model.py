"""A small model in the form of a large one: blocks, attention, tied weights, a buffer that no state dict has."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size)
        self.attention = nn.MultiheadAttention(hidden_size, 8, batch_first=True)
        self.fc1 = nn.Linear(hidden_size, 4 * hidden_size)
        self.fc2 = nn.Linear(4 * hidden_size, hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        result: torch.Tensor = x + self.fc2(nn.functional.gelu(self.fc1(x)))
        return result


class Large(nn.Module):
    def __init__(self, hidden_size: int = 512, num_layers: int = 3) -> None:
        super().__init__()
        self.hidden_size, self.num_layers = hidden_size, num_layers
        self.embed = nn.Embedding(1000, hidden_size)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.register_buffer("scale", torch.full((hidden_size,), 0.5), persistent=False)
        self.blocks = nn.ModuleList(Block(hidden_size) for _ in range(num_layers))
        self.head = nn.Linear(hidden_size, 1000, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) * self.scale
        for block in self.blocks:
            x = block(x)
        result: torch.Tensor = self.head(x)
        return result


def large() -> Large:
    """The model with its weights."""
    torch.manual_seed(0)
    return Large().eval()


def large_on_meta() -> tuple[Large, tuple[torch.Tensor, ...]]:
    """The model without weights but the buffer, and inputs that have values."""
    with torch.device("meta"):
        model = Large()
    model.scale = torch.full((512,), 0.5)
    return model.eval(), (torch.arange(12).reshape(2, 6),)
