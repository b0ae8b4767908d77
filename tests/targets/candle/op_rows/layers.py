"""Rows for torch.nn layers with every option, whether the runtime crate has a constructor for them or not."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from .table import Table, finite, ints, randn, special, values

table = Table("layers")
layer = table.layer

BF16, F64 = torch.bfloat16, torch.float64

layer("linear", lambda: nn.Linear(5, 4), randn(2, 3, 5))
layer("linear_no_bias", lambda: nn.Linear(5, 4, bias=False), randn(3, 5))
layer("linear_vector", lambda: nn.Linear(5, 4), randn(5))
layer("linear_bfloat16", lambda: nn.Linear(64, 32).to(BF16), randn(9, 64, dtype=BF16))
layer("linear_float64", lambda: nn.Linear(5, 4).to(F64), randn(3, 5, dtype=F64))
layer(
    "identity_then_linear",
    lambda: nn.Sequential(nn.Identity(), nn.Linear(5, 4), nn.Dropout(0.5)),
    randn(3, 5),
)
layer("bilinear", lambda: nn.Bilinear(5, 6, 4), randn(3, 5), randn(3, 6))
layer("embedding", lambda: nn.Embedding(7, 4), ints(0, 7, 2, 3))
layer("embedding_padding", lambda: nn.Embedding(7, 4, padding_idx=0), ints(0, 7, 2, 3))
layer("embedding_max_norm", lambda: nn.Embedding(7, 4, max_norm=1.5), values([[1, 5, 1], [0, 2, 5]]))
layer("embedding_max_norm_1", lambda: nn.Embedding(7, 4, max_norm=2.0, norm_type=1.0), ints(0, 7, 5))
layer("embedding_bag", lambda: nn.EmbeddingBag(7, 4), ints(0, 7, 2, 3))
layer("embedding_int32", lambda: nn.Embedding(7, 4), ints(0, 7, 6, dtype=torch.int32))


class Counter(nn.Module):
    """Reads a buffer after it was raised."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.count += 1
        self.seen.add_(x.sum(0))
        return x * self.count, self.seen / self.count


layer("counter", Counter, randn(4, 3))

# convolution
_SIZES = {1: (9,), 2: (7, 6), 3: (5, 6, 4)}
_CONVS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
_TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
_OPTIONS: dict[str, Callable[[int], dict]] = {
    "plain": lambda rank: {},
    "no_bias": lambda rank: {"bias": False},
    "stride": lambda rank: {"stride": (2, 1, 3)[:rank], "padding": (1, 0, 2)[:rank]},
    "dilation": lambda rank: {"dilation": (2, 1, 1)[:rank], "groups": 2},
    "depthwise": lambda rank: {"groups": 4, "padding": 1, "bias": False},
}
for rank, conv in _CONVS.items():
    x = randn(2, 4, *_SIZES[rank])
    for name, option in _OPTIONS.items():
        layer(f"conv{rank}d_{name}", lambda c=conv, o=option, r=rank: c(4, 8, 3, **o(r)), x)
    for mode in ("reflect", "replicate", "circular"):
        if (mode, rank) != ("reflect", 3):
            layer(f"conv{rank}d_{mode}", lambda c=conv, m=mode: c(4, 6, 3, padding=1, padding_mode=m), x)
    layer(f"conv{rank}d_same", lambda c=conv: c(4, 6, 3, padding="same", dilation=2), x)
    layer(f"conv{rank}d_same_uneven", lambda c=conv: c(4, 6, 2, padding="same"), x)
    layer(f"conv{rank}d_unbatched", lambda c=conv: c(4, 6, 3), randn(4, *_SIZES[rank]))
for rank, conv in _TRANSPOSED.items():
    x = randn(2, 4, *_SIZES[rank])
    for name, option in _OPTIONS.items():
        layer(f"conv_transpose{rank}d_{name}", lambda c=conv, o=option, r=rank: c(4, 8, 3, **o(r)), x)
    more = {"stride": 3, "output_padding": (2, 1, 0)[:rank], "padding": 1}
    layer(
        f"conv_transpose{rank}d_output_padding",
        lambda c=conv, o=more: c(4, 6, (3, 2, 3)[: len(o["output_padding"])], **o),
        x,
    )


class CausalConv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 6, 3, dilation=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x, (4, 0)))


layer("causal_conv", CausalConv, randn(2, 4, 9))
layer("conv_bfloat16", lambda: nn.Conv1d(4, 6, 3, padding=1).to(BF16), randn(2, 4, 9, dtype=BF16))

# normalisation
layer("layer_norm", lambda: nn.LayerNorm(5), randn(3, 4, 5))
layer("layer_norm_axes", lambda: nn.LayerNorm((4, 5), eps=1e-3), randn(3, 4, 5))
layer("layer_norm_three_axes", lambda: nn.LayerNorm((3, 4, 5)), randn(2, 3, 4, 5))
layer("layer_norm_no_affine", lambda: nn.LayerNorm((4, 5), elementwise_affine=False), randn(3, 4, 5))
layer("layer_norm_no_bias", lambda: nn.LayerNorm(5, bias=False), randn(3, 4, 5))
layer("layer_norm_bfloat16", lambda: nn.LayerNorm(64).to(BF16), randn(8, 64, dtype=BF16))
layer("rms_norm", lambda: nn.RMSNorm(5), randn(3, 4, 5))
layer("rms_norm_eps", lambda: nn.RMSNorm((4, 5), eps=0.1), randn(3, 4, 5))
layer("rms_norm_no_affine", lambda: nn.RMSNorm(5, elementwise_affine=False), randn(3, 4, 5))
layer("group_norm", lambda: nn.GroupNorm(2, 6, eps=0.1), randn(2, 6, 4, 5))
layer("group_norm_no_affine", lambda: nn.GroupNorm(3, 6, affine=False), randn(2, 6, 5))
layer("instance_norm", lambda: nn.InstanceNorm2d(3), randn(2, 3, 4, 5))
layer("instance_norm_affine", lambda: nn.InstanceNorm1d(3, affine=True), randn(2, 3, 5))
layer("instance_norm_statistics", lambda: nn.InstanceNorm1d(3, track_running_stats=True), randn(2, 3, 5))
layer("batch_norm_vector", lambda: nn.BatchNorm1d(3), randn(4, 3))
layer("batch_norm_1d", lambda: nn.BatchNorm1d(3, eps=0.1), randn(4, 3, 5))
layer("batch_norm_2d", lambda: nn.BatchNorm2d(3), randn(2, 3, 4, 5))
layer("batch_norm_3d", lambda: nn.BatchNorm3d(3), randn(2, 3, 4, 5, 2))
layer("batch_norm_no_affine", lambda: nn.BatchNorm2d(3, affine=False), randn(2, 3, 4, 5))
layer("batch_norm_no_statistics", lambda: nn.BatchNorm1d(3, track_running_stats=False), randn(4, 3, 5))
layer("local_response_norm", lambda: nn.LocalResponseNorm(3), randn(2, 6, 4, 5))
layer("weight_norm_linear", lambda: weight_norm(nn.Linear(5, 4)), randn(3, 5))
layer("weight_norm_conv", lambda: weight_norm(nn.Conv1d(4, 6, 3, padding=1)), randn(2, 4, 9))
layer(
    "weight_norm_conv_transpose",
    lambda: weight_norm(nn.ConvTranspose1d(4, 6, 4, 2, 1), dim=1),
    randn(2, 4, 9),
)
layer("spectral_norm_linear", lambda: spectral_norm(nn.Linear(5, 4)), randn(3, 5))
layer("spectral_norm_conv", lambda: spectral_norm(nn.Conv2d(3, 4, 3)), randn(2, 3, 5, 6))

# activations
_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "elu": lambda: nn.ELU(0.7),
    "hardshrink": nn.Hardshrink,
    "hardsigmoid": nn.Hardsigmoid,
    "hardtanh": lambda: nn.Hardtanh(-0.3, 0.6),
    "hardswish": nn.Hardswish,
    "leaky_relu": lambda: nn.LeakyReLU(0.2),
    "log_sigmoid": nn.LogSigmoid,
    "prelu": nn.PReLU,
    "relu": nn.ReLU,
    "relu_in_place": lambda: nn.Sequential(nn.Softsign(), nn.ReLU(inplace=True)),
    "relu6": nn.ReLU6,
    "selu": nn.SELU,
    "celu": nn.CELU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"),
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "softplus": lambda: nn.Softplus(2.0, 5.0),
    "softshrink": nn.Softshrink,
    "softsign": nn.Softsign,
    "tanh": nn.Tanh,
    "tanhshrink": nn.Tanhshrink,
    "threshold": lambda: nn.Threshold(0.1, 20.0),
}
for name, make in _ACTIVATIONS.items():
    layer(f"activation_{name}", make, finite() if name == "gelu" else special())
layer("activation_rrelu", nn.RReLU, special())
layer("activation_glu", lambda: nn.GLU(1), randn(2, 6, 3))
layer("activation_prelu_channels", lambda: nn.PReLU(6), randn(2, 6, 3))
layer(
    "activation_softmax",
    lambda: nn.Sequential(nn.Softmax(1), nn.LogSoftmax(-1), nn.Softmin(0)),
    randn(2, 6, 3),
)
layer("activation_softmax2d", nn.Softmax2d, randn(2, 6, 3, 4))
layer("activation_bfloat16", lambda: nn.Sequential(nn.GELU(), nn.SiLU(), nn.Mish()), randn(4, 9, dtype=BF16))


class Snake(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(1, 4, 1) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(self.alpha * x) ** 2 / self.alpha


layer("snake", Snake, randn(2, 4, 9))


class Quantised(nn.Module):
    """Weights of eight bits with a scale for each column."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (5, 4), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(4) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight.float() * self.scale)


class Constant(nn.Module):
    """Takes nothing, and is one activation."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 5))

    def forward(self) -> Tensor:
        return self.weight.relu()


class AddsConstant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.constant = Constant()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.constant()


layer("weights_of_eight_bits", Quantised, randn(3, 5))
layer("module_without_inputs", AddsConstant, randn(4, 5))

# shapes and pools as modules
layer("flatten", lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (5, 4))), randn(3, 4, 5))
layer(
    "pixel_shuffle",
    lambda: nn.Sequential(nn.PixelShuffle(2), nn.PixelUnshuffle(2), nn.ReLU()),
    randn(2, 8, 3, 4),
)
layer(
    "pools",
    lambda: nn.Sequential(nn.MaxPool2d(2), nn.AvgPool2d(3, 1, 1), nn.AdaptiveAvgPool2d(2)),
    randn(2, 3, 9, 8),
)
layer(
    "pads",
    lambda: nn.Sequential(nn.ZeroPad2d(1), nn.ReflectionPad2d((1, 2, 0, 1)), nn.ReplicationPad2d(2)),
    randn(2, 3, 4, 5),
)
layer(
    "upsamples",
    lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.UpsamplingBilinear2d((7, 9))),
    randn(2, 3, 4, 5),
)
layer("cosine_similarity", lambda: nn.CosineSimilarity(dim=-1), randn(4, 5), randn(4, 5))


# attention
class SelfAttention(nn.Module):
    def __init__(self, weights: bool = False, **options: bool):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, **options)
        self.weights = weights

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        out, weights = self.attention(x, x, x, need_weights=self.weights)
        return (out, weights) if self.weights else out


class CrossAttention(nn.Module):
    """Keys and values of other widths, with a mask and padding."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, kdim=4, vdim=3, batch_first=True)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = torch.ones(5, 6, dtype=torch.bool).triu(2)
        padding = torch.arange(6).expand(2, 6) > torch.tensor([[4], [5]])
        return self.attention(q, k, v, attn_mask=mask, key_padding_mask=padding, need_weights=False)[0]


layer("multihead_attention", lambda: SelfAttention(batch_first=True), randn(2, 5, 8))
layer("multihead_attention_weights", lambda: SelfAttention(weights=True), randn(5, 2, 8))
layer(
    "multihead_attention_no_bias",
    lambda: SelfAttention(batch_first=True, bias=False, add_zero_attn=True),
    randn(2, 5, 8),
)
layer("multihead_attention_cross", CrossAttention, randn(2, 5, 8), randn(2, 6, 4), randn(2, 6, 3))
layer("transformer_encoder", lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), randn(2, 5, 8))
layer(
    "transformer_encoder_norm_first",
    lambda: nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", norm_first=True, batch_first=True),
    randn(2, 5, 8),
)
layer(
    "transformer_decoder",
    lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
    randn(2, 5, 8),
    randn(2, 6, 8),
)
