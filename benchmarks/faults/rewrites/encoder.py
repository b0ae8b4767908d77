"""An encoder of padded texts: attention by hand, a mask for each text, a mean over what is not padding."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .layer import Layer, Subject, lively, switched

_SIZE, _HEADS, _LENGTH = 32, 4, 10


class Embedding(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, _SIZE), nn.Embedding(_LENGTH, _SIZE)

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1])
        if self.has("positions restarted"):
            places = places % 4
        x = self.words(ids) + self.places(places)
        if self.has("last token zeroed"):
            x = torch.cat([x[:, :-1], torch.zeros_like(x[:, :1])], dim=1)
        return x


class Attention(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(_SIZE, _SIZE) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, _HEADS, -1).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        if self.has("keys for values"):
            v = k
        width = _SIZE if self.has("scale of another width") else _SIZE // _HEADS
        scores = q @ k.transpose(-1, -2) / width**0.5
        if self.has("mask of the first"):
            mask = mask[:1].expand_as(mask)
        if self.has("mask stale"):
            mask = mask.roll(1, 0)
        weights = scores.masked_fill(mask, -1e4).softmax(-1)
        y = weights @ v
        if self.has("one head zeroed"):
            y = torch.cat([y[:, :2], torch.zeros_like(y[:, 2:3]), y[:, 3:]], dim=1)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class Mlp(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(_SIZE, _SIZE), nn.Linear(_SIZE, _SIZE)

    def forward(self, x: Tensor) -> Tensor:
        if self.has("swapped layers"):
            return self.up(F.gelu(self.down(x)))
        hidden = F.gelu(self.up(x))
        if self.has("activation twice"):
            hidden = F.gelu(hidden)
        if self.has("value clipped"):
            hidden = hidden.clamp(max=0.5)
        return self.up(hidden) if self.has("layer twice") else self.down(hidden)


class Block(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(_SIZE), Attention()
        self.other_norm, self.mlp = nn.LayerNorm(_SIZE), Mlp()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if self.has("norm after"):
            x = self.norm(x + self.attention(x, mask))
            return x + self.mlp(self.other_norm(x))
        y = x + self.attention(self.norm(x), mask)
        if self.has("residual twice"):
            y = y + x
        before = x if self.has("residual of another place") else y
        return before + self.mlp(self.other_norm(y))


class Pool(Layer):
    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if self.has("mean over padding"):
            return x.mean(1)
        kept = (~mask[:, 0, 0]).unsqueeze(-1).float()
        return (x * kept).sum(1) / kept.sum(1)


class Head(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(_SIZE, 20)

    def forward(self, x: Tensor) -> Tensor:
        logits = self.out(x) / 0.7
        if self.has("temperature twice"):
            logits = logits / 0.7
        return logits.log_softmax(-1)


class Encoder(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.blocks = Embedding(), nn.ModuleList(Block() for _ in range(3))
        self.pool, self.head = Pool(), Head()

    def forward(self, ids: Tensor) -> Tensor:
        mask = (ids == 0)[:, None, None, :]
        x = self.embedding(ids)
        order = [0, 2, 1] if self.has("blocks in another order") else [0, 1, 2]
        for index in order:
            x = self.blocks[index](x, mask)
        return self.head(self.pool(x, mask))


def _texts() -> tuple[Tensor]:
    ids = torch.randint(1, 50, (3, _LENGTH), generator=torch.Generator().manual_seed(3))
    ids[0, 7:], ids[1, 4:] = 0, 0
    return (ids,)


ENCODER = Subject(
    "encoder",
    False,
    lambda: lively(Encoder()),
    _texts,
    (
        switched("positions restarted", "embedding", "arange", "remainder"),
        switched("last token zeroed", "embedding", "add", "cat"),
        switched("keys for values", "blocks.1.attention", "matmul"),
        switched("scale of another width", "blocks.1.attention", "div"),
        switched("mask of the first", "blocks.1.attention", "masked_fill", "expand"),
        switched("mask stale", "blocks.1.attention", "masked_fill", "roll"),
        switched("one head zeroed", "blocks.1.attention", "matmul", "cat"),
        switched("swapped layers", "blocks.1.mlp"),
        switched("activation twice", "blocks.1.mlp", "gelu"),
        switched("value clipped", "blocks.1.mlp", "gelu", "clamp"),
        switched("layer twice", "blocks.1.mlp", "linear"),
        switched("norm after", "blocks.1"),
        switched("residual twice", "blocks.1", "add"),
        switched("residual of another place", "blocks.1", "add"),
        switched("mean over padding", "pool", "mul", "sum", "div"),
        switched("temperature twice", "head", "div"),
        switched("blocks in another order", ""),
    ),
)
