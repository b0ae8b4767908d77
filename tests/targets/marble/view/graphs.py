"""Graphs to look at: a perceptron, a small convolutional network, a small encoder, and one that was built by hand."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from torchport.targets.marble.core.builder import GraphBuilder
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.model import core_of


class Convolutions(nn.Module):
    """Windows with margins, steps, gaps and groups of channels; a norm; a mean; a sum that skips a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1, stride=(2, 1))
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, (3, 2), padding=(2, 1), dilation=(2, 1), groups=2, bias=False)
        self.line = nn.Conv1d(4, 3, 3, padding=1)
        self.head = nn.Linear(3 * 4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).relu()
        x = torch.cat([self.second(x)[..., :-1] + x, x.flip(3)], 3)
        x = self.line(x.mean(3))
        return self.head(x.flatten(1)).softmax(-1)


class Choices(nn.Module):
    """Windows that are pooled, values that are chosen, several results of one group, and factors along axes."""

    def __init__(self) -> None:
        super().__init__()
        self.back = nn.ConvTranspose2d(2, 2, 3, stride=2, groups=2)
        self.words = nn.Embedding(5, 4)

    def forward(self, x: Tensor, words: Tensor) -> tuple[Tensor, ...]:
        pooled = functional.max_pool2d(x, 3, 2, 1) + functional.adaptive_avg_pool2d(x, (3, 2))
        values, places = pooled.topk(2, dim=-1)
        wide = functional.interpolate(self.back(values), scale_factor=2, mode="bilinear")
        return wide, places, self.words(words).cumsum(1), functional.pad(x, (1, 1), value=3.0).sum(-1)


def choices() -> Core:
    return core_of(Choices().eval(), (torch.randn(1, 2, 5, 4), torch.tensor([[1, 3, 4]])))


def perceptron(wide: int = 16) -> Core:
    return core_of(nn.Sequential(nn.Linear(8, wide), nn.ReLU(), nn.Linear(wide, 4)), torch.randn(2, 8))


def convolutions() -> Core:
    return core_of(Convolutions().eval(), torch.randn(1, 2, 8, 6))


def encoder() -> Core:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return core_of(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval(), torch.randn(1, 3, 8))


def built() -> Core:
    """Synapses one by one, and a memory."""
    builder = GraphBuilder("built")
    x = builder.input(4, name="x")
    hidden = builder.linear_layer(x, torch.randn(6, 4), torch.randn(6), activation="relu", name="hidden")
    total = builder.add_neuron_group(3, activation="tanh", bias=[0.5, -0.5, 0.0], name="total")
    builder.connect(hidden, total, torch.randn(3, 6))
    builder.add_synapses(x.gives[1], total.takes[2], 7.5)
    last = builder.add_memory(total, name="last")
    builder.add_synapses(last, hidden.takes[:3], torch.randn(3))
    return builder.build(total)


def pruned() -> Core:
    core = built()
    core.prune(below=0.3)
    return core


def without_a_neuron() -> Core:
    core = built()
    core.remove_neurons([core.version.group("hidden").ids[4]], cascade=True)
    return core
