"""Graphs of ATen operations to plant faults in: stacks of blocks of usual models, and random graphs."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

Graph = tuple[torch.fx.GraphModule, list[Tensor]]


class Mlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Convolutions(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.norm(self.second(torch.relu(self.first(x)))))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.qkv, self.out, self.mlp = nn.Linear(width, 3 * width), nn.Linear(width, width), Mlp(width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.mlp(x + self.out(mixed))


BLOCKS = {
    "mlp": (lambda: Mlp(16), (4, 16)),
    "cnn": (lambda: Convolutions(4), (2, 4, 6, 6)),
    "transformer": (lambda: Attention(16), (2, 5, 16)),
}


def stack(kind: str, blocks: int, dtype: torch.dtype = torch.float32) -> Graph:
    """So many blocks of a kind, with weights and input as inputs of the graph."""
    torch.manual_seed(0)
    make, shape = BLOCKS[kind]
    model = nn.Sequential(*(make() for _ in range(blocks))).to(dtype).eval()
    names = [name for name, _ in [*model.named_parameters(), *model.named_buffers()]]
    values = [value.detach() for value in [*model.parameters(), *model.buffers()]]

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        return torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (x,))

    inputs = [torch.randn(shape, dtype=dtype), *values]
    return _traced(run, inputs)


_UNARY = [
    torch.relu,
    torch.tanh,
    torch.sigmoid,
    torch.sin,
    torch.cos,
    torch.abs,
    nn.functional.silu,
    torch.neg,
]
_BINARY = [torch.maximum, torch.minimum, lambda x, y: torch.tanh(x + y), lambda x, y: torch.tanh(x * y)]


def random_graph(operations: int, seed: int, special: Sequence[str] = ()) -> Graph:
    """Operations at random on tensors of one shape, all of them used; those in `special` stand once each inside."""
    chosen = random.Random(seed)
    inside = sorted(chosen.sample(range(operations // 4, operations - 5), len(special)))
    places = dict(zip(inside, special, strict=True))

    def run(*inputs: Tensor) -> list[Tensor]:
        known, used = list(inputs), set()

        def some() -> Tensor:
            index = chosen.randrange(max(0, len(known) - 12), len(known))
            used.add(index)
            return known[index]

        for index in range(operations):
            if index in places:
                known.append(SPECIAL[places[index]](some()))
            elif chosen.random() < 0.6:
                known.append(chosen.choice(_UNARY)(some()))
            else:
                known.append(chosen.choice(_BINARY)(some(), some()))
        return [value for index, value in enumerate(known) if index not in used]

    torch.manual_seed(seed)
    return _traced(run, [torch.randn(6, 8) for _ in range(3)])


SPECIAL = {
    "erf": torch.erf,
    "softplus": nn.functional.softplus,
    "cumsum": lambda x: torch.cumsum(x, -1) / 8,
    "square_sqrt": lambda x: torch.sqrt(torch.square(x)),
    "expm1_log1p": lambda x: torch.log1p(torch.expm1(x.abs())),
}


def _traced(run: object, inputs: list[Tensor]) -> Graph:
    with torch.no_grad():
        return make_fx(run)(*inputs), inputs  # type: ignore[arg-type]
