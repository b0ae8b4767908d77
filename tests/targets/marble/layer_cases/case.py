"""A case: a module, or a function as one, and its inputs."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Case = tuple[nn.Module, tuple[Any, ...]]


class Fn(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


def rand(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def trained(norm: nn.Module, *shape: int) -> nn.Module:
    """A norm that has seen data, so that its statistics are not the initial ones."""
    norm.train()
    for _ in range(3):
        norm(torch.randn(4, *shape[1:]) * 2 + 1)
    for weight in norm.parameters():
        nn.init.uniform_(weight, 0.5, 1.5)
    return norm.eval()
