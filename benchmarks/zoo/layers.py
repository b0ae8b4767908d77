"""Layers and small models of torch.nn."""

from __future__ import annotations

import torch
from torch import nn

from .entries import OTHER_SIZES, Subject, entry, in_zoo, train_statistics


class Mlp(nn.Module):
    """A square layer, where a transposed weight would still fit."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(32, 32)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(32, 10, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.act(self.fc1(x)))


class Cnn(nn.Module):
    """BatchNorm with trained statistics and an unusual epsilon, a residual, stride, dilation and groups."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16, eps=1e-3)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=4)
        self.bn2 = nn.BatchNorm2d(16, eps=1e-3)
        self.down = nn.Conv2d(16, 24, (3, 1), stride=(2, 1), padding=(1, 0))
        self.head = nn.Linear(24, 7)
        train_statistics(self, lambda: (torch.randn(4, 3, 32, 32) * 2 + 1,))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn1(self.stem(x)))
        x = x + torch.relu(self.bn2(self.conv2(x)))
        return self.head(self.down(x).mean(dim=(2, 3)))


class MaskedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(
        self, query: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor, padding: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.attention(query, memory, memory, attn_mask=mask, key_padding_mask=padding)


@entry
def mlp() -> Subject:
    return Mlp(), (torch.randn(4, 32),)


@entry
def cnn() -> Subject:
    return Cnn(), (torch.randn(2, 3, 32, 32),)


@entry
def encoder_layer() -> Subject:
    return nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), (torch.randn(2, 10, 64),)


@entry
def encoder_layer_norm_first() -> Subject:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True, activation="gelu")
    return layer, (torch.randn(2, 10, 64),)


@entry
def attention() -> Subject:
    padding = torch.zeros(2, 10, dtype=torch.bool)
    padding[0, 7:] = True
    mask = torch.zeros(8, 10).masked_fill(torch.rand(8, 10) < 0.2, -1e4)
    return MaskedAttention(), (torch.randn(2, 8, 64), torch.randn(2, 10, 64), mask, padding)


@entry
def lstm() -> Subject:
    return nn.LSTM(16, 32, num_layers=2, bidirectional=True), (torch.randn(9, 2, 16),)


OTHER_SIZES["cnn"] = "x:0,x:2,x:3", lambda: (torch.randn(3, 3, 40, 24),)


# Every layer of a kind, side by side on the same values


class SideBySide(nn.Module):
    """Gives what each layer makes of the same input."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [layer(x) for layer in self.layers]


ACTIVATIONS: tuple[nn.Module, ...] = (
    nn.CELU(0.7), nn.ELU(0.7), nn.GELU(), nn.GELU("tanh"), nn.GLU(1), nn.Hardshrink(0.3), nn.Hardsigmoid(),
    nn.Hardswish(), nn.Hardtanh(-0.5, 0.7), nn.Identity(), nn.LeakyReLU(0.2), nn.LogSigmoid(), nn.LogSoftmax(1),
    nn.Mish(), nn.PReLU(), nn.PReLU(8, init=0.1), nn.ReLU(), nn.ReLU6(), nn.RReLU(), nn.SELU(), nn.SiLU(),
    nn.Sigmoid(), nn.Softmax(1), nn.Softmax2d(), nn.Softmin(1), nn.Softplus(2.0, 5.0), nn.Softshrink(0.3),
    nn.Softsign(), nn.Tanh(), nn.Tanhshrink(), nn.Threshold(0.1, 0.5),
)  # fmt: skip
PADDINGS_2D: tuple[nn.Module, ...] = (
    nn.CircularPad2d((1, 2, 0, 3)), nn.ConstantPad2d((1, 2, 0, 3), 0.5), nn.ReflectionPad2d((1, 2, 0, 3)),
    nn.ReplicationPad2d((1, 2, 0, 3)), nn.ZeroPad2d((1, 2, -1, 3)), nn.PixelShuffle(2), nn.PixelUnshuffle(2),
    nn.ChannelShuffle(4), nn.Upsample(scale_factor=2), nn.Upsample(size=(5, 9), mode="bilinear"),
    nn.Upsample(scale_factor=1.5, mode="bilinear", align_corners=True), nn.Upsample(scale_factor=2, mode="bicubic"),
    nn.UpsamplingNearest2d(scale_factor=3), nn.UpsamplingBilinear2d(scale_factor=2), nn.Unfold(3, padding=1),
)  # fmt: skip
POOLINGS_2D: tuple[nn.Module, ...] = (
    nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, ceil_mode=True), nn.MaxPool2d(3, 1, dilation=2), nn.AvgPool2d(3, 2, 1),
    nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), nn.AvgPool2d(2, divisor_override=3),
    nn.LPPool2d(2, 3), nn.AdaptiveAvgPool2d((3, 5)), nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d((3, 5)),
)  # fmt: skip
NORMS: tuple[nn.Module, ...] = (
    nn.BatchNorm2d(8, eps=1e-3), nn.BatchNorm2d(8, affine=False), nn.BatchNorm2d(8, track_running_stats=False),
    nn.GroupNorm(4, 8), nn.GroupNorm(2, 8, affine=False), nn.InstanceNorm2d(8), nn.InstanceNorm2d(8, affine=True),
    nn.InstanceNorm2d(8, track_running_stats=True), nn.LayerNorm(6), nn.LayerNorm([8, 10, 6], eps=1e-3),
    nn.LayerNorm(6, bias=False), nn.LocalResponseNorm(3), nn.RMSNorm(6), nn.RMSNorm([10, 6], eps=1e-3),
)  # fmt: skip
LAYERS_1D: tuple[nn.Module, ...] = (
    nn.Conv1d(8, 6, 3), nn.Conv1d(8, 12, 5, stride=2, padding=2, dilation=2, groups=4, bias=False),
    nn.Conv1d(8, 6, 4, padding="same"), nn.Conv1d(8, 6, 3, padding=1, padding_mode="circular"),
    nn.ConvTranspose1d(8, 6, 4, stride=2, padding=1), nn.ConvTranspose1d(8, 6, 3, 2, 1, 1, groups=2, dilation=2),
    nn.MaxPool1d(3, 2, 1), nn.AvgPool1d(3, 2, 1), nn.LPPool1d(2, 3), nn.AdaptiveAvgPool1d(5),
    nn.AdaptiveMaxPool1d(5), nn.BatchNorm1d(8), nn.InstanceNorm1d(8), nn.ReflectionPad1d(3), nn.ReplicationPad1d(3),
    nn.CircularPad1d(2), nn.ConstantPad1d(2, 1.5), nn.Upsample(scale_factor=2, mode="linear"),
)  # fmt: skip
CONVOLUTIONS_2D: tuple[nn.Module, ...] = (
    nn.Conv2d(8, 6, 3), nn.Conv2d(8, 6, (3, 1), stride=(1, 2), padding=(0, 1), dilation=(2, 1)),
    nn.Conv2d(8, 16, 3, groups=8, bias=False), nn.Conv2d(8, 6, 3, padding="same", dilation=2),
    nn.Conv2d(8, 6, 3, padding=2, padding_mode="reflect"), nn.Conv2d(8, 6, 3, padding=1, padding_mode="replicate"),
    nn.ConvTranspose2d(8, 6, 3), nn.ConvTranspose2d(8, 6, 4, 2, 1, groups=2, bias=False),
    nn.ConvTranspose2d(8, 6, (3, 2), (2, 3), (1, 0), (1, 2), dilation=(1, 2)),
)  # fmt: skip
LAYERS_3D: tuple[nn.Module, ...] = (
    nn.Conv3d(8, 6, 3), nn.Conv3d(8, 6, (1, 3, 2), (1, 2, 1), (0, 1, 1), groups=2, bias=False),
    nn.ConvTranspose3d(8, 6, 3, 2, 1, 1), nn.MaxPool3d(2), nn.AvgPool3d(3, 2, 1), nn.AdaptiveAvgPool3d((2, 3, 1)),
    nn.AdaptiveMaxPool3d(2), nn.BatchNorm3d(8), nn.InstanceNorm3d(8), nn.ReplicationPad3d(1), nn.ReflectionPad3d(1),
    nn.ConstantPad3d(1, 0.5), nn.Upsample(scale_factor=2, mode="trilinear"), nn.Upsample(scale_factor=2),
)  # fmt: skip


@in_zoo
def activations() -> Subject:
    return SideBySide(*ACTIVATIONS), (torch.randn(2, 8, 4, 6) * 3,)


@in_zoo
def norms() -> Subject:
    model = SideBySide(*NORMS)
    train_statistics(model, lambda: (torch.randn(4, 8, 10, 6) * 2 + 1,))
    return model, (torch.randn(2, 8, 10, 6),)


@in_zoo
def poolings() -> Subject:
    return SideBySide(*POOLINGS_2D), (torch.randn(2, 8, 11, 12),)


@in_zoo
def paddings() -> Subject:
    return SideBySide(*PADDINGS_2D), (torch.randn(2, 8, 6, 8),)


@in_zoo
def convolutions() -> Subject:
    return SideBySide(*CONVOLUTIONS_2D), (torch.randn(2, 8, 9, 10),)


@in_zoo
def one_dimension() -> Subject:
    return SideBySide(*LAYERS_1D), (torch.randn(2, 8, 20),)


@in_zoo
def three_dimensions() -> Subject:
    return SideBySide(*LAYERS_3D), (torch.randn(2, 8, 4, 6, 6),)


class Recurrent(nn.Module):
    """Every recurrent layer: stacked, both ways, batch first or last, a projection, a state from outside, a cell."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.RNN(16, 12, nonlinearity="relu", num_layers=2)
        self.tanh = nn.RNN(16, 12, bidirectional=True, batch_first=True, bias=False)
        self.gru = nn.GRU(16, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.projected = nn.LSTM(16, 12, num_layers=2, proj_size=5, bidirectional=True)
        self.given = nn.LSTM(16, 12, batch_first=True)
        self.cells = nn.ModuleList([nn.RNNCell(16, 12), nn.GRUCell(16, 12)])
        self.lstm_cell = nn.LSTMCell(16, 12)

    def forward(self, x: torch.Tensor, state: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = [*self.plain(x), *self.tanh(x), *self.gru(x), self.projected(x)[0]]
        found += [self.given(x, (state, memory))[0], *(cell(x[:, 0]) for cell in self.cells)]
        return (*found, *self.lstm_cell(x[:, 0]))


@in_zoo
def recurrent() -> Subject:
    return Recurrent(), (torch.randn(5, 7, 16), torch.randn(1, 5, 12), torch.randn(1, 5, 12))


@in_zoo
def encoder_stack() -> Subject:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.TransformerEncoder(layer, 3, norm=nn.LayerNorm(64)), (torch.randn(2, 10, 64),)


@in_zoo
def decoder_stack() -> Subject:
    layer = nn.TransformerDecoderLayer(64, 4, 128, batch_first=True, norm_first=True)
    return nn.TransformerDecoder(layer, 2), (torch.randn(2, 8, 64), torch.randn(2, 10, 64))


@in_zoo
def transformer() -> Subject:
    model = nn.Transformer(64, 4, 2, 2, 128, batch_first=True)
    return model, (torch.randn(2, 10, 64), torch.randn(2, 8, 64))


class Bags(nn.Module):
    """Bags of tokens: by length and by offsets, summed, averaged and the largest of each."""

    def __init__(self) -> None:
        super().__init__()
        self.sums = nn.EmbeddingBag(50, 16, mode="sum")
        self.means = nn.EmbeddingBag(50, 16, mode="mean", padding_idx=0)
        self.largest = nn.EmbeddingBag(50, 16, mode="max")

    def forward(self, bags: torch.Tensor, tokens: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return self.sums(bags) + self.means(bags) + self.largest(bags) + self.sums(tokens, offsets)


@in_zoo
def embedding_bags() -> Subject:
    tokens = torch.randint(0, 50, (13,))
    return Bags(), (torch.randint(0, 50, (4, 6)), tokens, torch.tensor([0, 3, 3, 9]))
