"""A convolutional network: residual blocks that end in relu, a skip by `cat`, channels that are gated."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .layer import Layer, Subject, lively, switched


class Block(Layer):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.other_conv, self.other_norm = (
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.has("swapped layers"):
            y = self.other_norm(self.conv(torch.relu(self.norm(self.other_conv(x)))))
            return torch.relu(x + y)
        y = torch.relu(self.norm(self.conv(x)))
        if self.has("layer twice"):
            y = torch.relu(self.norm(self.conv(y)))
        y = self.other_norm(self.other_conv(y))
        if self.has("relu before the add"):
            return torch.relu(y) + x
        if self.has("residual twice"):
            return torch.relu(x + y + x)
        z = torch.relu(x + y)
        if self.has("one channel zeroed"):
            z = z * torch.tensor([1.0, 1, 1, 0, 1, 1, 1, 1])[:, None, None]
        return z.roll(1, -1) if self.has("roll by one") else z


class Gate(Layer):
    """A factor for each channel, from its mean over the picture."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc = nn.Linear(channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.fc(x.mean((2, 3))))
        if self.has("activation twice"):
            gate = torch.sigmoid(gate)
        y = x * gate[:, :, None, None]
        if self.has("value clipped"):
            y = y.clamp(-0.3, 0.3)
        if self.has("reversed"):
            y = y.flip(-1)
        return y * 1.0005 if self.has("scale of 1.0005") else y


class Convnet(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList(Block(8) for _ in range(3))
        self.gate, self.join, self.head = Gate(8), nn.Conv2d(16, 8, 1), nn.Linear(8, 10)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        x = early = torch.relu(self.stem(x))
        blocks = list(self.blocks)
        for block in reversed(blocks) if self.has("blocks in another order") else blocks:
            x = block(x)
        parts = [early, self.gate(x)]
        x = self.join(torch.cat(parts[::-1] if self.has("concat swapped") else parts, dim=1))
        pooled = F.avg_pool2d(x, 2).mean((2, 3))
        if self.has("norm after"):
            return self.norm(self.head(pooled)[:, :8])
        logits = self.head(self.norm(pooled)) / 0.5
        return logits / 0.5 if self.has("temperature twice") else logits


CONVNET = Subject(
    "convnet",
    True,
    lambda: lively(Convnet()),
    lambda: (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(3)),),
    (
        switched("swapped layers", "blocks.1"),
        switched("layer twice", "blocks.1"),
        switched("relu before the add", "blocks.1", "add", "relu"),
        switched("residual twice", "blocks.1", "add"),
        switched("one channel zeroed", "blocks.1", "relu", "mul"),
        switched("roll by one", "blocks.1", "relu", "roll"),
        switched("activation twice", "gate", "sigmoid"),
        switched("value clipped", "gate", "mul", "clamp"),
        switched("reversed", "gate", "mul", "flip"),
        switched("scale of 1.0005", "gate", "mul"),
        switched("blocks in another order", ""),
        switched("concat swapped", "", "cat"),
        switched("temperature twice", "", "div"),
    ),
)
