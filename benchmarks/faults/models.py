"""Small models for operations that the zoo lacks. Sizes are equal where a mistake would otherwise change a shape."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from .. import zoo
from . import scales

SIZE = 16


class Decoder(nn.Module):
    """Attention spelled out: rotary positions, a causal mask by `tril`, softmax; as long as it is wide."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, SIZE)
        self.q, self.k, self.v, self.out = (nn.Linear(SIZE, SIZE) for _ in range(4))
        self.gain = nn.Parameter(torch.rand(SIZE) + 0.5)
        self.head = nn.Linear(SIZE, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        length = ids.shape[1]
        angles = torch.arange(length)[:, None] / 100.0 ** torch.linspace(0, 1, SIZE // 2)
        angles = torch.cat([angles, angles], dim=-1)
        q, k, v = (rotated(layer(x), angles) for layer in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) * SIZE**-0.5
        causal = torch.tril(torch.ones(length, length, dtype=torch.bool))
        scores = scores.masked_fill(~causal, -1e4).softmax(dim=-1)
        x = x + self.out(scores @ v)
        return self.head(x * self.gain)


def rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return x * angles.cos() + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * angles.sin()


class Rotary(nn.Module):
    """Rotary positions and heads, with a mask from positions, as language models have them."""

    def __init__(self) -> None:
        super().__init__()
        self.frequencies: torch.Tensor
        self.qkv = nn.Linear(SIZE, 3 * SIZE)
        self.out = nn.Linear(SIZE, SIZE)
        self.register_buffer("frequencies", 1 / 50 ** torch.linspace(0, 1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        positions = torch.arange(length)
        angles = positions[:, None] * self.frequencies
        angles = torch.cat([angles, angles], dim=-1)
        q, k, v = (part.view(batch, length, 2, 8).transpose(1, 2) for part in self.qkv(x).split(SIZE, dim=-1))
        seen = positions[None, :] <= positions[:, None]
        y = F.scaled_dot_product_attention(rotated(q, angles), rotated(k, angles), v, attn_mask=seen)
        return self.out(y.transpose(1, 2).reshape(batch, length, SIZE))


class Unet(nn.Module):
    """Down and up again: reflected edges, dilation, bilinear and transposed convolution, a skip by `cat`."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, padding_mode="reflect")
        self.down = nn.Conv2d(8, SIZE, 3, stride=2, padding=1)
        self.wide = nn.Conv2d(SIZE, SIZE, 3, padding=2, dilation=2)
        self.norm = nn.BatchNorm2d(SIZE)
        self.up = nn.ConvTranspose2d(SIZE, SIZE, 3, stride=2, padding=1, output_padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.head = nn.Conv2d(SIZE + 8, 4, 1)
        self.score = nn.Linear(4 * 8 * 8, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = torch.relu(self.stem(x))
        deep = torch.relu(self.norm(self.wide(self.down(skip))))
        y = self.up(deep) + F.interpolate(deep, scale_factor=2, mode="bilinear", align_corners=False)
        y = self.pool(self.head(torch.cat([y, skip], dim=1)))
        return self.score(y.flatten(1))


class Upscaler(nn.Module):
    """Edges repeated, corners aligned, and a weight for each of as many channels as there are rows."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, padding_mode="replicate")
        self.scale = nn.Parameter(torch.rand(8, 1, 1) + 0.5)
        self.wide = nn.Conv2d(8, 8, 3, padding=3, dilation=3, groups=2)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.spread = nn.ConvTranspose2d(8, 8, 4, stride=2, padding=1)
        self.last = nn.Linear(8 * 4 * 4, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.conv(x)) * self.scale
        x = self.up(x + self.wide(x))
        x = F.avg_pool2d(self.spread(x), 8)
        return self.last(x.flatten(1))


class Audio(nn.Module):
    """Dilated convolutions in one dimension, wrapped around, interpolated, then a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, SIZE, 5, stride=2, padding=2, padding_mode="circular")
        self.second = nn.Conv1d(SIZE, SIZE, 3, padding=2, dilation=2)
        self.norm = nn.GroupNorm(4, SIZE)
        self.gru = nn.GRU(SIZE, SIZE, batch_first=True)
        self.head = nn.Linear(SIZE, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.norm(self.second(F.silu(self.first(x)))))
        x = F.interpolate(x, size=24, mode="linear", align_corners=False)
        states, _ = self.gru(x.transpose(1, 2))
        return self.head(states)


class Crnn(nn.Module):
    """Text in a picture: convolutions, then recurrent layers both ways over the columns."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.lstm = nn.LSTM(8 * 4, SIZE, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(2 * SIZE, SIZE, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(2 * SIZE, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x).permute(0, 3, 1, 2).flatten(2)
        x, _ = self.lstm(x)
        x, _ = self.gru(x)
        return self.head(x).log_softmax(dim=-1)


class Translator(nn.Module):
    """An LSTM reads, a GRU writes, attention between them; input and output share the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, SIZE)
        self.encoder = nn.LSTM(SIZE, SIZE, batch_first=True)
        self.decoder = nn.GRU(SIZE, SIZE, batch_first=True)
        self.mix = nn.Linear(2 * SIZE, SIZE)
        self.head = nn.Linear(SIZE, 40)
        self.head.weight = self.embedding.weight

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        memory, _ = self.encoder(self.embedding(source))
        states, _ = self.decoder(self.embedding(target))
        scores = states @ memory.transpose(1, 2) / SIZE**0.5
        scores = scores.masked_fill((source == 0)[:, None, :], float("-inf"))
        read = scores.softmax(dim=-1) @ memory
        return self.head(torch.tanh(self.mix(torch.cat([states, read], dim=-1))))


class Buckets(nn.Module):
    """Relative positions in buckets by integer division, a bias for attention over a square."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Embedding(SIZE, 1)
        self.row = nn.Parameter(torch.randn(SIZE))
        self.mix = nn.Linear(SIZE, SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(SIZE)
        distance = positions[None, :] - positions[:, None]
        buckets = torch.div(distance, 3, rounding_mode="floor") + SIZE // 2
        scores = x + self.bias(buckets).squeeze(-1) + self.row
        return self.mix(scores.softmax(dim=-1).cumsum(dim=-1))


class Grid(nn.Module):
    """Coordinates from a flat index, and a shift that cuts towards zero."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.columns = nn.Embedding(12, SIZE), nn.Embedding(4, SIZE)
        self.gain = nn.Parameter(torch.rand(SIZE) + 0.5)
        self.out = nn.Linear(SIZE, SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        index = torch.arange(SIZE) - 6
        rows = torch.div(index, 4, rounding_mode="trunc") + 5
        x = (x + self.rows(rows) + self.columns(index % 4)) * self.gain
        return x + self.out(x).mean(dim=1, keepdim=True)


class Pages(nn.Module):
    """Signed offsets in pages of seven, looked up; what comes out is squared off."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = nn.Embedding(30, SIZE)
        self.out = nn.Linear(SIZE, SIZE)

    def forward(self, offsets: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.out(self.pages(offsets // 7 + 15)))


class Tagger(nn.Module):
    """Words in, one tag a word out, by an LSTM both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(60, SIZE)
        self.lstm = nn.LSTM(SIZE, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(24, SIZE, batch_first=True)
        self.tags = nn.Linear(SIZE, 9)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.words(ids))
        return self.tags(self.gru(states)[0])


class Flow(nn.Module):
    """A coarse field made fine with corners aligned, added to a picture with its edges mirrored."""

    def __init__(self) -> None:
        super().__init__()
        self.pad = nn.ReflectionPad2d(2)
        self.conv = nn.Conv2d(2, 8, 5, stride=2)
        self.wide = nn.Conv2d(8, 8, 3, padding=(2, 4), dilation=(2, 4))
        self.back = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.head = nn.Linear(8 * 8 * 8, 16)

    def forward(self, picture: torch.Tensor) -> torch.Tensor:
        coarse = torch.tanh(self.conv(self.pad(picture)))
        fine = F.interpolate(coarse, size=(16, 16), mode="bilinear", align_corners=True)
        fine = fine + self.back(self.wide(coarse))
        return self.head(F.max_pool2d(fine, 2).flatten(1))


def words(batch: int, length: int, count: int) -> torch.Tensor:
    return torch.randint(1, count, (batch, length))


OWN: dict[str, Callable[[], tuple[nn.Module, tuple]]] = {
    "decoder": lambda: (Decoder(), (words(2, SIZE, 50),)),
    "rotary": lambda: (Rotary(), (torch.randn(2, 10, SIZE),)),
    "unet": lambda: (Unet(), (torch.randn(2, 3, 16, 16),)),
    "upscaler": lambda: (Upscaler(), (torch.randn(2, 3, 8, 8),)),
    "audio": lambda: (Audio(), (torch.randn(2, 4, 32),)),
    "crnn": lambda: (Crnn(), (torch.randn(2, 1, 8, 24),)),
    "translator": lambda: (
        Translator(),
        (torch.cat([words(2, 6, 40), torch.zeros(2, 2).long()], 1), words(2, 5, 40)),
    ),
    "buckets": lambda: (Buckets(), (torch.randn(2, SIZE, SIZE),)),
    "grid": lambda: (Grid(), (torch.randn(2, SIZE, SIZE),)),
    "pages": lambda: (Pages(), (torch.randint(-100, 100, (2, 12)),)),
    "tagger": lambda: (Tagger(), (words(2, 9, 60),)),
    "flow": lambda: (Flow(), (torch.randn(2, 2, 16, 16),)),
}
FROM_THE_ZOO = (
    "mlp",
    "cnn",
    "encoder_layer",
    "encoder_layer_norm_first",
    "attention",
    "lstm",
    "bert",
    "gpt2",
    "llama",
    "qwen3",
    "opt",
    "whisper",
    "vit",
    "resnet18",
    "mobilenet_v3_small",
    "convnext_tiny",
    "swin_t",
)


def lively(factory: zoo.Factory) -> zoo.Factory:
    """The model with biases, gains and statistics as training leaves them: a fault in a zero shows nothing."""

    def build() -> zoo.Subject:
        torch.manual_seed(0)
        model, *inputs = factory()
        torch.manual_seed(1)
        with torch.no_grad():
            for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
                if name.endswith("running_var"):
                    tensor.uniform_(0.5, 1.5)
                elif tensor.ndim == 1 and tensor.is_floating_point() and "freq" not in name:
                    tensor.add_(torch.randn_like(tensor) * 0.1)
        return (model.eval(), *inputs)

    return build


_PLAIN: dict[str, zoo.Factory] = {
    **{name: zoo.ZOO[name] for name in FROM_THE_ZOO},
    **OWN,
    **scales.MODELS,
}
MODELS = {name: lively(factory) for name, factory in _PLAIN.items()}
