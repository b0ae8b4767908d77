"""A small MLP. Its middle layer is square, so a transposed weight would fit and only the numbers would tell.

torchport port examples/mlp.py:mlp --to candle
"""

import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self, in_features: int, hidden_size: int, num_classes: int) -> None:
        super().__init__()
        self.hidden_size, self.num_classes = hidden_size, num_classes
        self.fc1 = nn.Linear(in_features, hidden_size)
        self.fc2 = nn.Linear(hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.head = nn.Linear(hidden_size, num_classes)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.fc1(features))
        hidden = hidden + nn.functional.gelu(self.fc2(hidden))
        return self.head(self.norm(hidden))


def mlp() -> tuple[nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    return Mlp(20, 64, 10).eval(), (torch.randn(8, 20),)
