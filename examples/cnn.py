"""A small CNN: BatchNorm2d with trained statistics and its own epsilon, residual, stride, dilation, groups.

torchport port examples/cnn.py:cnn --to candle
"""

import torch
from torch import nn


def norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class Block(nn.Module):
    """A dilated and a grouped convolution around a residual."""

    def __init__(self, channels: int, dilation: int, groups: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=dilation, dilation=dilation, bias=False)
        self.norm1 = norm(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
        self.norm2 = norm(channels)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.norm1(self.conv1(x)))
        return self.act(x + self.norm2(self.conv2(y)))


class Cnn(nn.Module):
    def __init__(self, channels: int = 16, num_classes: int = 10) -> None:
        super().__init__()
        self.channels, self.num_classes = channels, num_classes
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 3, stride=2, padding=1, bias=False), norm(channels), nn.ReLU()
        )
        self.blocks = nn.ModuleList(
            [Block(channels, dilation=1, groups=1), Block(channels, dilation=2, groups=4)]
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, num_classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.stem(image)
        for block in self.blocks:
            x = block(x)
        return self.head(self.pool(x).flatten(1))


def cnn() -> tuple[nn.Module, tuple[torch.Tensor]]:
    torch.manual_seed(0)
    model = Cnn()
    model.train()
    with torch.no_grad():  # A few batches, so that the running statistics are not 0 and 1.
        for _ in range(5):
            model(torch.randn(8, 3, 32, 32) * 2 + 0.5)
    return model.eval(), (torch.randn(2, 3, 32, 32),)
