"""A layer that reads another sequence: norms after the sums, masks by `where`, features joined from several parts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .layer import Layer, Subject, lively, switched

_SIZE, _HEADS = 24, 3


class Crossed(Layer):
    """Attention to another sequence, some of which is padding."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.out = (
            nn.Linear(_SIZE, _SIZE),
            nn.Linear(_SIZE, 2 * _SIZE),
            nn.Linear(_SIZE, _SIZE),
        )

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (_HEADS, -1)).transpose(1, 2)

    def forward(self, x: Tensor, other: Tensor, kept: Tensor) -> Tensor:
        q = self.split(self.q(x))
        k, v = (self.split(part) for part in self.kv(other).chunk(2, dim=-1))
        if self.has("keys for values"):
            v = k
        if self.has("first token dropped"):
            v = torch.cat([v[:, :, 1:], v[:, :, :1] * 0], dim=2)
        if self.has("scale of another width"):
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * _SIZE**-0.5
        else:
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * (_SIZE // _HEADS) ** -0.5
        if self.has("mask stale"):
            kept = torch.ones_like(kept).tril(2)
        if self.has("mask of the first"):
            kept = kept[:1].expand_as(kept)
        weights = torch.where(kept[:, None, None, :], scores, -1e9).softmax(-1)
        if self.has("dropout stale"):
            weights = weights * (torch.arange(weights.numel()).reshape(weights.shape) % 7 != 0) / (6 / 7)
        y = (weights @ v).transpose(1, 2).flatten(2)
        if self.has("last token zeroed"):
            y = torch.cat([y[:, :-1], torch.zeros_like(y[:, -1:])], dim=1)
        return self.out(y)


class Positions(Layer):
    """What is learned for each place, turned by an angle."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(12, _SIZE) * 0.5)
        self.bias = nn.Parameter(torch.randn(_SIZE))

    def forward(self, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1])
        if self.has("positions restarted"):
            places = torch.cat([places[:3], places[: x.shape[1] - 3]])
        angles = places[:, None] * 0.1
        sin = -angles.sin() if self.has("rotation the other way") else angles.sin()
        even, odd = x[..., ::2], x[..., 1::2]
        turned = [even * angles.cos() - odd * sin, even * sin + odd * angles.cos()]
        if self.has("concat swapped"):
            turned = turned[::-1]
        y = torch.stack(turned, dim=-1).flatten(-2) + self.table[places] + self.bias
        return y + self.bias if self.has("bias twice") else y


class Block(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.crossed, self.norm = Crossed(), nn.LayerNorm(_SIZE)
        self.up, self.act, self.down = nn.Linear(_SIZE, _SIZE), nn.GELU(), nn.Linear(_SIZE, _SIZE)
        self.other_norm = nn.LayerNorm(_SIZE)

    def forward(self, x: Tensor, other: Tensor, kept: Tensor) -> Tensor:
        if self.has("norm after"):
            x = x + self.norm(self.crossed(x, other, kept))
        else:
            x = self.norm(x + self.crossed(x, other, kept))
        first, second = (self.down, self.up) if self.has("swapped layers") else (self.up, self.down)
        hidden = self.act(first(x))
        if self.has("layer twice"):
            hidden = self.act(first(hidden))
        y = second(hidden)
        if self.has("residual twice"):
            y = x + y
        if self.has("residual of another place"):
            return self.other_norm(hidden + y)
        return self.other_norm(x + y)


class Reader(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.positions, self.blocks = Positions(), nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(_SIZE, 7)

    def forward(self, x: Tensor, other: Tensor, kept: Tensor) -> Tensor:
        x = self.positions(x)
        if self.has("reversed"):
            other = other.flip(1)
        order = [1, 0] if self.has("blocks in another order") else [0, 1]
        for index in order:
            x = self.blocks[index](x, other, kept)
        if self.has("mean over padding"):
            return self.head(x) + other.mean(1, keepdim=True).mean(-1, keepdim=True)
        means = (other * kept[..., None]).sum(1, keepdim=True) / kept.sum(1)[:, None, None]
        return self.head(x) + means.mean(-1, keepdim=True)


def _sequences() -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    kept = torch.ones(3, 8, dtype=torch.bool)
    kept[0, 5:], kept[2, 3:] = False, False
    other = torch.randn(3, 8, _SIZE, generator=generator)
    return torch.randn(3, 8, _SIZE, generator=generator), other, kept


CROSSED = Subject(
    "crossed",
    True,
    lambda: lively(Reader()),
    _sequences,
    (
        switched("keys for values", "blocks.1.crossed", "matmul"),
        switched("first token dropped", "blocks.1.crossed", "matmul", "transpose", "cat"),
        switched("scale of another width", "blocks.1.crossed", "mul"),
        switched("mask stale", "blocks.1.crossed", "where", "tril"),
        switched("mask of the first", "blocks.1.crossed", "where", "expand"),
        switched("dropout stale", "blocks.1.crossed", "softmax", "mul", "div"),
        switched("last token zeroed", "blocks.1.crossed", "flatten", "reshape", "cat"),
        switched("positions restarted", "positions", "arange", "cat"),
        switched("rotation the other way", "positions", "sin", "mul", "neg"),
        switched("concat swapped", "positions", "stack"),
        switched("bias twice", "positions", "add"),
        switched("norm after", "blocks.1", "add"),
        switched("swapped layers", "blocks.1"),
        switched("layer twice", "blocks.1"),
        switched("residual twice", "blocks.1", "add"),
        switched("residual of another place", "blocks.1", "add"),
        switched("reversed", "", "flip"),
        switched("blocks in another order", ""),
        switched("mean over padding", "", "mul", "sum", "div"),
    ),
)
