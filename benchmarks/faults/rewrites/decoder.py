"""A decoder with rotary positions, fewer heads for keys and values than for queries, and a gated mlp."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .layer import Layer, Subject, lively, switched

_SIZE, _HEADS, _GROUPS, _LENGTH = 32, 4, 2, 9


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Norm(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(_SIZE))

    def forward(self, x: Tensor) -> Tensor:
        y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight
        return y * 1.0005 if self.has("scale of 1.0005") else y


class Attention(Layer):
    def __init__(self) -> None:
        super().__init__()
        width = _SIZE // _HEADS
        self.q, self.out = nn.Linear(_SIZE, _SIZE), nn.Linear(_SIZE, _SIZE)
        self.k, self.v = nn.Linear(_SIZE, _GROUPS * width), nn.Linear(_SIZE, _GROUPS * width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, _HEADS, -1).transpose(1, 2)
        k, v = (layer(x).view(batch, length, _GROUPS, -1).transpose(1, 2) for layer in (self.k, self.v))
        if self.has("roll by one"):
            k = k.roll(1, 2)
        q, k = rotated(q, cos, -sin if self.has("rotation the other way") else sin), rotated(k, cos, sin)
        times = _HEADS // _GROUPS
        k = k.repeat_interleave(times, dim=1)
        v = v.repeat(1, times, 1, 1) if self.has("heads tiled") else v.repeat_interleave(times, dim=1)
        width = _SIZE if self.has("scale of another width") else _SIZE // _HEADS
        given = k if self.has("keys for values") else v
        y = F.scaled_dot_product_attention(q, k, given, is_causal=True, scale=width**-0.5)
        if self.has("one head zeroed"):
            y = y * torch.tensor([1.0, 0.0, 1.0, 1.0])[:, None, None]
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class Gated(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(_SIZE, 48), nn.Linear(_SIZE, 48)
        self.down = nn.Linear(48, _SIZE)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate(x), self.up(x)
        if self.has("swapped layers"):
            gate, up = up, gate
        hidden = F.silu(gate) * up
        if self.has("activation twice"):
            hidden = F.silu(F.silu(gate)) * up
        if self.has("one channel zeroed"):
            hidden = hidden * (torch.arange(48) != 5)
        y = self.down(hidden)
        if self.has("bias twice"):
            y = y + self.down.bias
        return y


class Block(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention, self.other_norm, self.mlp = Norm(), Attention(), Norm(), Gated()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = self.attention(self.norm(x), cos, sin)
        if self.has("layer twice"):
            y = self.attention(y, cos, sin)
        x = x + y
        z = self.mlp(self.other_norm(x))
        if self.has("first token dropped"):
            z = torch.cat([z[:, 1:], torch.zeros_like(z[:, :1])], dim=1)
        return x + z + x if self.has("residual twice") else x + z


class Decoder(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.blocks = nn.Embedding(50, _SIZE), nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = Norm(), nn.Linear(_SIZE, 50, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        places = torch.arange(ids.shape[1])
        if self.has("positions restarted"):
            places = places % 5
        angles = places[:, None] / 100.0 ** torch.linspace(0, 1, _SIZE // _HEADS // 2)
        angles = torch.cat([angles, angles], dim=-1)
        blocks = list(self.blocks)
        for block in reversed(blocks) if self.has("blocks in another order") else blocks:
            x = block(x, angles.cos(), angles.sin())
        if self.has("reversed"):
            x = x.flip(1)
        return self.head(self.norm(x))


DECODER = Subject(
    "decoder",
    False,
    lambda: lively(Decoder()),
    lambda: (torch.randint(0, 50, (2, _LENGTH), generator=torch.Generator().manual_seed(3)),),
    (
        switched("positions restarted", "", "arange", "remainder"),
        switched("reversed", "", "flip"),
        switched("blocks in another order", ""),
        switched("scale of 1.0005", "blocks.1.norm", "mul"),
        switched("roll by one", "blocks.1.attention", "transpose", "roll"),
        switched("rotation the other way", "blocks.1.attention", "mul", "neg"),
        switched("heads tiled", "blocks.1.attention", "repeat_interleave", "repeat"),
        switched("scale of another width", "blocks.1.attention", "scaled_dot_product_attention"),
        switched(
            "keys for values", "blocks.1.attention", "scaled_dot_product_attention", "repeat_interleave"
        ),
        switched("one head zeroed", "blocks.1.attention", "scaled_dot_product_attention", "mul"),
        switched("swapped layers", "blocks.1.mlp", "silu"),
        switched("activation twice", "blocks.1.mlp", "silu"),
        switched("one channel zeroed", "blocks.1.mlp", "mul"),
        switched("bias twice", "blocks.1.mlp", "add"),
        switched("layer twice", "blocks.1"),
        switched("first token dropped", "blocks.1", "add", "cat"),
        switched("residual twice", "blocks.1", "add"),
    ),
)
