"""Layers with their options, and what is computed from tensors alone, on which neurons are compared with torch.

Each case is a module, or a function, and its inputs. All are in float64, so that a wrong formula cannot hide behind
rounding.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

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


def products() -> Iterator[Case]:
    yield nn.Linear(5, 7), (rand(3, 5),)
    yield nn.Linear(5, 7, bias=False), (rand(2, 3, 5),)
    yield nn.Linear(5, 7), (rand(5),)
    yield nn.Bilinear(4, 5, 3), (rand(2, 4), rand(2, 5))
    for size in ((4, 5), (2, 4, 5), (3, 2, 4, 5)):
        yield Fn(torch.matmul), (rand(*size), rand(5, 3))
    yield Fn(torch.matmul), (rand(5), rand(5))
    yield Fn(torch.matmul), (rand(4, 5), rand(5))
    yield Fn(torch.matmul), (rand(5), rand(2, 5, 3))
    yield Fn(torch.matmul), (rand(3, 1, 4, 5), rand(2, 5, 3))
    yield Fn(torch.bmm), (rand(2, 4, 5), rand(2, 5, 3))
    yield Fn(lambda a, b, c: torch.addmm(a, b, c, beta=0.5, alpha=2)), (rand(3), rand(4, 5), rand(5, 3))
    yield Fn(lambda a, b, c: torch.baddbmm(a, b, c, alpha=2)), (rand(2, 4, 3), rand(2, 4, 5), rand(2, 5, 3))
    yield Fn(lambda a, b: torch.einsum("bij,bkj->bik", a, b)), (rand(2, 3, 4), rand(2, 5, 4))
    yield Fn(torch.outer), (rand(3), rand(4))


def convolutions() -> Iterator[Case]:
    image = rand(2, 4, 9, 8)
    yield nn.Conv1d(4, 6, 3), (rand(2, 4, 10),)
    yield nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False), (rand(2, 4, 10),)
    yield nn.Conv1d(4, 6, 4, padding="same"), (rand(2, 4, 10),)
    yield nn.Conv1d(4, 6, 3, padding=2, padding_mode="circular"), (rand(2, 4, 10),)
    yield nn.Conv1d(4, 6, 3), (rand(4, 10),)
    yield nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)), (image,)
    yield nn.Conv2d(4, 4, 3, groups=4, padding=1, bias=False), (image,)
    yield nn.Conv2d(4, 6, 3, padding="valid"), (image,)
    yield nn.Conv2d(4, 6, (4, 3), padding="same", dilation=(1, 2)), (image,)
    for mode in ("reflect", "replicate", "circular"):
        yield nn.Conv2d(4, 6, 3, padding=(2, 1), padding_mode=mode, stride=2), (image,)
    yield nn.Sequential(nn.ZeroPad2d((0, 1, 2, 3)), nn.Conv2d(4, 6, 3)), (image,)
    yield nn.Conv2d(4, 6, 3), (rand(4, 9, 8),)
    yield nn.Conv3d(2, 4, (1, 2, 3), stride=(1, 2, 1), padding=(0, 1, 1), groups=2), (rand(1, 2, 3, 5, 6),)
    yield nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1), (rand(2, 4, 5),)
    yield nn.ConvTranspose2d(4, 6, 3, stride=(2, 1), dilation=2, groups=2, bias=False), (image,)
    yield Fn(lambda x, w: F.conv2d(x, w - w.mean(0), w[:, 0, 0, 0], padding=1)), (image, rand(6, 4, 3, 3))
    yield Fn(lambda x, w: F.conv_transpose1d(x, w * 2)), (rand(4, 5), rand(4, 2, 3))
    yield nn.Sequential(nn.Conv2d(4, 3, 3), nn.Flatten(), nn.Linear(3 * 7 * 6, 5)), (image,)


def pools() -> Iterator[Case]:
    image, line = rand(2, 3, 9, 8), rand(2, 3, 11)
    yield nn.MaxPool1d(3, stride=2, padding=1), (line,)
    yield nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), (image,)
    yield nn.MaxPool2d((2, 3), dilation=(2, 1)), (image,)
    yield nn.MaxPool2d(2, return_indices=True), (image,)
    yield nn.MaxPool3d(2), (rand(1, 2, 4, 4, 4),)
    yield nn.AvgPool1d(3, stride=2, padding=1), (line,)
    yield nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False, ceil_mode=True), (image,)
    yield nn.AvgPool2d(2, divisor_override=3), (image,)
    yield nn.AvgPool3d(2), (rand(1, 2, 4, 4, 4),)
    yield nn.AdaptiveAvgPool1d(4), (line,)
    yield nn.AdaptiveAvgPool2d((5, 3)), (image,)
    yield nn.AdaptiveAvgPool2d(1), (image,)
    yield nn.AdaptiveMaxPool1d(4), (line,)
    yield nn.AdaptiveMaxPool2d((5, 3)), (image,)
    yield nn.LPPool2d(2, 3), (image.abs(),)
    yield Fn(lambda x: x.mean(dim=(2, 3))), (image,)
    yield Fn(lambda x: x.amax(dim=(2, 3), keepdim=True)), (image,)
    yield nn.Upsample(scale_factor=2, mode="bilinear"), (image,)
    yield nn.Upsample(size=(5, 12), mode="bicubic", align_corners=True), (image,)
    yield nn.Upsample(scale_factor=3), (image,)
    yield nn.PixelShuffle(2), (rand(1, 8, 3, 3),)
    yield nn.Unfold(3, padding=1, stride=2), (image,)
    yield nn.Fold((4, 5), 2), (rand(1, 3 * 4, 12),)


def norms() -> Iterator[Case]:
    yield trained(nn.BatchNorm1d(4, eps=1e-3), 2, 4), (rand(3, 4),)
    yield trained(nn.BatchNorm1d(4), 2, 4, 5), (rand(3, 4, 5),)
    yield trained(nn.BatchNorm2d(4, affine=False), 2, 4, 3, 3), (rand(3, 4, 3, 3),)
    yield nn.BatchNorm2d(4, track_running_stats=False), (rand(3, 4, 3, 3),)
    yield trained(nn.BatchNorm3d(2), 2, 2, 2, 2, 2), (rand(2, 2, 2, 2, 2),)
    yield nn.LayerNorm(6, eps=1e-2), (rand(2, 3, 6),)
    yield trained(nn.LayerNorm((3, 6)), 2, 3, 6), (rand(2, 3, 6),)
    yield nn.LayerNorm(6, elementwise_affine=False), (rand(2, 6),)
    yield trained(nn.LayerNorm(6, bias=False), 2, 6), (rand(2, 6),)
    yield trained(nn.GroupNorm(2, 6, eps=1e-3), 2, 6, 4), (rand(2, 6, 4),)
    yield nn.GroupNorm(3, 6, affine=False), (rand(2, 6, 3, 3),)
    yield trained(nn.InstanceNorm2d(3, affine=True), 2, 3, 4, 4), (rand(2, 3, 4, 4),)
    yield trained(nn.RMSNorm(6, eps=1e-4), 2, 6), (rand(2, 3, 6),)
    yield nn.RMSNorm(6), (rand(2, 6),)
    yield nn.LocalResponseNorm(2), (rand(2, 4, 3, 3),)
    yield nn.Softmax(dim=1), (rand(2, 4, 3),)
    yield nn.LogSoftmax(dim=-1), (rand(2, 4),)
    yield nn.Softmin(dim=0), (rand(3, 4),)
    yield Fn(lambda x: x.float().softmax(-1, dtype=torch.float64)), (rand(3, 4),)
    yield Fn(lambda x: F.normalize(x, dim=1)), (rand(3, 4),)
    yield (
        Fn(lambda x: (x.var(1), x.var(0, correction=0), x.std(), x.var((0, 1), keepdim=True))),
        (rand(3, 4),),
    )
    yield Fn(lambda x: (x.logsumexp(1), x.logsumexp((0, 1), keepdim=True), x.norm(dim=1))), (rand(3, 4),)


def activations() -> Iterator[Case]:
    made: list[nn.Module] = [
        *(nn.ReLU(), nn.ReLU6(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Mish(), nn.Tanh(), nn.Sigmoid()),
        *(nn.ELU(0.7), nn.CELU(0.7), nn.SELU(), nn.LeakyReLU(0.2), nn.Hardtanh(-0.5, 0.7), nn.Hardswish()),
        *(nn.Hardsigmoid(), nn.Hardshrink(0.3), nn.Softshrink(0.3), nn.Softplus(2.0, 1.0), nn.Softsign()),
        *(nn.LogSigmoid(), nn.Threshold(0.1, -3.0), nn.Tanhshrink(), nn.Dropout(0.5), nn.Identity()),
        *(nn.AlphaDropout(0.5), nn.Dropout2d(0.5), nn.FeatureAlphaDropout(0.5), nn.RReLU(), nn.GLU(1)),
    ]
    for one in made:
        yield one, (rand(2, 4, 3, 3),)
    prelu = nn.PReLU(4)
    nn.init.uniform_(prelu.weight)
    yield prelu, (rand(2, 4, 3),)
    yield nn.PReLU(), (rand(2, 4),)


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


def arithmetic() -> Iterator[Case]:
    x, y = rand(2, 3, 4), rand(3, 1)
    flags = torch.tensor([True, False, True, False])
    whole = torch.tensor([-7, -2, 0, 5, 9])
    for function in (
        lambda a, b: (a * 2 + 1, 3 - a, a / 3, 2 / a, a / b, a - b, -a, b - 2 * a),
        lambda a, b: (
            torch.add(a, b, alpha=3),
            torch.sub(a, b, alpha=2),
            torch.rsub(a, b),
            a * b,
            a**2,
            a ** b.abs(),
        ),
        lambda a, b: (
            a > b,
            a == a,
            torch.where(a > 0, a, b),
            a.clamp(-0.5, 0.5),
            a.clamp(min=b),
            torch.max(a, b),
        ),
        lambda a, b: (torch.lerp(a, a + 1, 0.3), torch.lerp(a, a + 1, a), torch.addcmul(a, a, b, value=2)),
        lambda a, b: (
            torch.addcdiv(a, a, b, value=2),
            torch.fmod(a, 0.3),
            a % 0.3,
            a // 0.3,
            torch.atan2(a, b),
        ),
        lambda a, b: (
            a.cumsum(1),
            a.cumprod(2),
            a.flip(0),
            a.roll(1, 2),
            a.tril(),
            a.triu(1),
            a.diagonal(0, 1, 2),
        ),
        lambda a, b: (
            a.sort(2),
            a.topk(2),
            a.argmax(1),
            a.argmin(),
            a.max(1),
            a.min(2, keepdim=True),
            a.median(),
        ),
        lambda a, b: (
            a.sum(),
            a.sum((0, 2)),
            a.mean(),
            a.prod(),
            a.prod(1),
            a.amin((0, 1)),
            (a > 0).any(1),
            (a > 0).all(),
        ),
        lambda a, b: (
            a.view(6, 4),
            a.permute(2, 0, 1),
            a.unflatten(2, (2, 2)),
            a.expand(5, 2, 3, 4),
            a[:, 1:, ::2],
        ),
        lambda a, b: (
            a.split([1, 2], 1),
            a.chunk(2, 2),
            a.unbind(0),
            torch.cat([a, a], 1),
            torch.stack([a, a]),
        ),
        lambda a, b: (
            a.repeat(1, 2, 1),
            a.repeat_interleave(2, 1),
            a.squeeze(),
            a.unsqueeze(1),
            a.movedim(0, 2),
            a.mT,
        ),
        lambda a, b: (
            F.pad(a, (1, 2)),
            F.pad(a, (1, 1), mode="reflect"),
            F.pad(a, (-1, 1), value=2.0),
            a.abs().sqrt(),
        ),
        lambda a, b: (
            a.float() + a,
            a.half() * 2,
            a.to(torch.bfloat16).float(),
            a.long() / 2,
            a.int() + 0.5,
            a.bool(),
        ),
        lambda a, b: (
            a.masked_fill(a > 0, 2.0),
            a.new_zeros(2),
            torch.zeros_like(a),
            torch.full((2,), 3.0) + a[0, 0, 0],
        ),
    ):
        yield Fn(function), (x, y)
    yield (
        Fn(lambda i: (i + 1, i // 2, i / 2, i % 3, i * i, i.float().mean(), i & 3, ~i, i.sum(), i.cumsum(0))),
        (whole,),
    )
    yield (
        Fn(lambda i: (torch.div(i, 2, rounding_mode="trunc"), torch.div(i, 2, rounding_mode="floor"))),
        (whole,),
    )
    yield (
        Fn(lambda f: (f & f, f | ~f, f.sum(), f.cumsum(0), f.float(), f.logical_xor(f), f.any(), f.all())),
        (flags,),
    )
    yield (
        Fn(lambda a, i: (a[:, i], a.index_select(1, i), a.gather(1, i[None, :, None].expand(2, 2, 4)))),
        (x, whole[2:4] % 3),
    )
    yield Fn(lambda a, i: a.scatter(1, i, 5.0)), (x, torch.zeros(2, 1, 4, dtype=torch.long))
    yield (
        Fn(lambda a: (a + 1, a * 2, a.sum(), a.exp(), a.reshape(1), a.item if False else a)),
        (torch.tensor(2.0),),
    )
    yield Fn(lambda a: (a + 1, a.sum(), a.sum(1), F.relu(a), torch.cat([a, a]), a @ a.mT)), (rand(0, 3),)


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


def narrow(dtype: torch.dtype) -> Iterator[Case]:
    """Layers in 16 bits, and what mixes such with others."""
    x, image = torch.randn(3, 4, 8).to(dtype), torch.randn(2, 4, 6, 6).to(dtype)
    heads = torch.randn(2, 2, 5, 8).to(dtype)
    for model in (
        *(
            nn.Linear(8, 6),
            nn.LayerNorm(8),
            nn.RMSNorm(8),
            nn.GELU(),
            nn.SiLU(),
            nn.Softmax(-1),
            nn.LogSoftmax(1),
        ),
        Fn(
            lambda a: (
                a.float() + a,
                a * 2 + 1,
                a / 3,
                a.sum(-1),
                a.mean(1),
                a.var(-1),
                a.std(0),
                a.logsumexp(-1),
            )
        ),
        Fn(
            lambda a: (
                a @ a.mT,
                a.softmax(-1, dtype=torch.float32),
                a + torch.tensor(1.5, dtype=torch.float64),
                a > 0,
            )
        ),
    ):
        yield model.to(dtype), (x,)
    yield nn.Conv2d(4, 6, 3, padding=1).to(dtype), (image,)
    yield trained(nn.BatchNorm2d(4), 2, 4, 6, 6).to(dtype), (image,)
    yield nn.GroupNorm(2, 4).to(dtype), (image,)
    yield nn.AvgPool2d(2), (image,)
    yield Fn(lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True)), (heads,)


def not_finite() -> Iterator[Case]:
    odd = torch.tensor([[1.0, float("nan"), 2.0], [float("inf"), -1.0, 0.0], [-float("inf")] * 3])
    image = torch.randn(1, 2, 4, 4)
    image[0, 0, 1, 1] = float("nan")
    for function in (
        lambda a: (
            a.relu(),
            a.softmax(-1),
            a.log_softmax(-1),
            a.logsumexp(-1),
            a.max(1),
            a.sum(0),
            a.mean(1),
        ),
        lambda a: (
            a / 0,
            0 / a,
            a * 0,
            a.clamp(-1, 1),
            torch.maximum(a, a.flip(0)),
            a.amax(0),
            a.isnan(),
            a == a,
        ),
        lambda a: (a.sort(1), a.argmax(1), torch.where(a > 0, a, 0.0), a.nan_to_num(), a.var(1), a @ a),
    ):
        yield Fn(function), (odd,)
    yield nn.MaxPool2d(2), (image,)
    yield nn.AvgPool2d(2), (image,)
    seen = torch.ones(3, 3, dtype=torch.bool)
    seen[1] = False
    q = torch.randn(1, 3, 4)
    yield Fn(F.scaled_dot_product_attention), (q, q, q, seen)


TOPICS: dict[str, Callable[[], Iterator[Case]]] = {
    topic.__name__: topic
    for topic in (
        *(products, convolutions, pools, norms, activations, recurrent),
        *(embeddings, attention, arithmetic, positions),
    )
}
