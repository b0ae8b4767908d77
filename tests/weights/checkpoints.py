"""Checkpoints and a manifest that fits them, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from torchport.capture.recorder import record


class Net(nn.Module):
    """Two layers, a norm with buffers, a tied weight, and a constant buffer that no state dict has."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.fc = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.arange(8) % 2 == 0, persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.fc(self.embed(ids)))
        return self.head(torch.where(self.mask, x, -x))


def net() -> Net:
    torch.manual_seed(0)
    made = Net().eval()
    assert made.norm.running_mean is not None
    nn.init.normal_(made.norm.running_mean)
    return made


def recorded(folder: Path, *, values: bool = True) -> Path:
    """The manifest of the model; without values, there is nothing beside it."""
    files = record(net(), torch.zeros(2, dtype=torch.int64), name="net", truth=False).save(folder)
    if not values:
        for kind, path in files.items():
            if kind != "manifest":
                path.unlink()
    return files["manifest"]


def saved(path: Path, tensors: object) -> Path:
    torch.save(tensors, path)
    return path
