"""Layers for sequences: recurrent ones, embeddings, attention, and encodings of positions."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F

from .case import Case, Fn, rand


def recurrent() -> Iterator[Case]:
    x, state = rand(5, 2, 4), rand(2, 2, 3)
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        yield kind(4, 3), (x,)
        yield kind(4, 3, num_layers=2, bidirectional=True, batch_first=True, bias=False), (x,)
        yield kind(4, 3, num_layers=2, dropout=0.5), (x, (state, state + 1) if kind is nn.LSTM else state)
        yield kind(4, 3, bidirectional=True), (rand(5, 4),)
    yield nn.RNN(4, 3, nonlinearity="relu", num_layers=2), (x,)
    yield nn.LSTM(4, 5, proj_size=3, num_layers=2, bidirectional=True), (x,)
    yield nn.LSTMCell(4, 3), (rand(2, 4), (rand(2, 3), rand(2, 3)))
    yield nn.GRUCell(4, 3), (rand(2, 4), rand(2, 3))
    yield nn.RNNCell(4, 3), (rand(2, 4),)
    yield Unpacked(nn.GRU(4, 3)), (x,)
    yield Unpacked(nn.RNN(4, 3)), (x,)


class Unpacked(nn.Module):
    """`o, h = rnn(x)`."""

    def __init__(self, rnn: nn.Module) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        o, h = self.rnn(x)
        return torch.relu(h) + h + o[-1:]


def embeddings() -> Iterator[Case]:
    ids = torch.tensor([[0, 3, 1], [2, 2, 4]])
    yield nn.Embedding(5, 3), (ids,)
    yield nn.Embedding(5, 3, padding_idx=2), (ids,)
    yield nn.Embedding(5, 3, max_norm=0.8), (ids,)
    for mode in ("sum", "mean", "max"):
        yield nn.EmbeddingBag(5, 3, mode=mode), (ids,)
        yield nn.EmbeddingBag(5, 3, mode=mode, padding_idx=2), (ids.flatten(), torch.tensor([0, 2, 5]))
    yield (
        nn.EmbeddingBag(5, 3, mode="sum", include_last_offset=True),
        (ids.flatten(), torch.tensor([0, 2, 6])),
    )
    yield Fn(lambda i: F.one_hot(i, 5).double()), (ids,)


def attention() -> Iterator[Case]:
    x, memory = rand(2, 5, 8), rand(2, 6, 8)
    for batch_first in (True, False):
        yield nn.MultiheadAttention(8, 2, batch_first=batch_first), (x, x, x)
    yield nn.MultiheadAttention(8, 2, kdim=6, vdim=4, bias=False), (x, rand(3, 5, 6), rand(3, 5, 4))
    yield nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True), (x, x, x)
    hidden = torch.zeros(2, 6, dtype=torch.bool)
    hidden[1, 4:] = True
    heads = nn.MultiheadAttention(8, 2, batch_first=True)
    yield (
        Fn(lambda q, m, k: heads(q, m, m, key_padding_mask=k, average_attn_weights=False)),
        (x, memory, hidden),
    )
    q, k, v = rand(2, 4, 5, 3), rand(2, 4, 6, 3), rand(2, 4, 6, 3)
    yield Fn(F.scaled_dot_product_attention), (q, k, v)
    yield Fn(lambda *given: F.scaled_dot_product_attention(*given, is_causal=True, scale=0.3)), (q, k, v)
    yield Fn(F.scaled_dot_product_attention), (q, k, v, rand(5, 6))
    yield Fn(F.scaled_dot_product_attention), (q, k, v, torch.rand(2, 1, 5, 6) > 0.4)
    yield (
        Fn(lambda *given: F.scaled_dot_product_attention(*given, enable_gqa=True)),
        (q, rand(2, 2, 6, 3), rand(2, 2, 6, 3)),
    )
    yield nn.TransformerEncoderLayer(8, 2, 12, activation="gelu", norm_first=True), (x,)
    yield nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, bias=False), (x,)
    yield nn.TransformerDecoderLayer(8, 2, 12, batch_first=True), (x, memory)
    yield nn.TransformerDecoderLayer(8, 2, 12, norm_first=True), (x, rand(3, 5, 8))
    yield nn.Transformer(8, 2, 2, 1, 12, batch_first=True), (memory, x)


def positions() -> Iterator[Case]:
    yield Sinusoidal(), (rand(2, 5, 8),)
    yield Learned(), (rand(2, 5, 8),)


class Sinusoidal(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        place = torch.arange(x.shape[1], dtype=x.dtype)[:, None]
        rate = torch.exp(torch.arange(0, 8, 2, dtype=x.dtype) * (-torch.log(torch.tensor(10000.0)) / 8))
        return x + torch.cat([torch.sin(place * rate), torch.cos(place * rate)], -1)


class Learned(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Embedding(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.places(torch.arange(x.shape[1]))
