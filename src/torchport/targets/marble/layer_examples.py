"""A small example of every layer of torch.nn, with inputs, by which it is found out whether the layer converts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

Example = Callable[[], tuple[nn.Module, tuple[Any, ...]]]
HOLDERS = frozenset(
    [
        "Container",
        "Module",
        "ModuleDict",
        "ModuleList",
        "ParameterDict",
        "ParameterList",
        "RNNBase",
        "RNNCellBase",
    ]
)
"""Classes that hold other modules or parameters, or that layers derive from. They have no forward, so are no layers."""

_LINE, _PLANE, _BLOCK = (2, 4, 12), (2, 4, 8, 8), (1, 2, 6, 6, 6)
_BY_RANK = {1: _LINE, 2: _PLANE, 3: _BLOCK}


def _of(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Example:
    """A layer with random inputs of these shapes."""
    return lambda: (make(), tuple(torch.randn(shape) for shape in shapes))


def _with(make: Callable[[], nn.Module], *inputs: Callable[[], Any]) -> Example:
    return lambda: (make(), tuple(given() for given in inputs))


def _random(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(shape)


def _share(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.rand(shape) * 0.8 + 0.1


def _classes(most: int, *shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(0, most, shape)


def _signs(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(0, 2, shape).float() * 2 - 1


def _same(number: int, *shape: int) -> Callable[[], Tensor]:
    return lambda: torch.full(shape, number)


def _by_rank(name: str, *args: Any, **options: Any) -> dict[str, Example]:
    """`name1d`, `name2d` and `name3d` with the same arguments."""
    return {
        f"{name}{rank}d": _of(lambda rank=rank: getattr(nn, f"{name}{rank}d")(*args, **options), shape)  # type: ignore[misc]
        for rank, shape in _BY_RANK.items()
    }


def _over_channels(name: str, *args: Any) -> dict[str, Example]:
    """Layers that are told the number of channels first."""
    return {
        f"{name}{rank}d": _of(
            lambda rank=rank, channels=shape[1]: getattr(nn, f"{name}{rank}d")(channels, *args),  # type: ignore[misc]
            shape,
        )
        for rank, shape in _BY_RANK.items()
    }


def _lazy(name: str, *args: Any) -> dict[str, Example]:
    """Lazy layers, which learn their sizes from a first call."""

    def example(rank: int, shape: tuple[int, ...]) -> Example:
        def make() -> tuple[nn.Module, tuple[Any, ...]]:
            layer, given = getattr(nn, f"Lazy{name}{rank}d")(*args), torch.randn(shape)
            layer(given)
            return layer, (given,)

        return make

    return {f"Lazy{name}{rank}d": example(rank, shape) for rank, shape in _BY_RANK.items()}


def _lazy_linear() -> tuple[nn.Module, tuple[Any, ...]]:
    layer, given = nn.LazyLinear(3), torch.randn(2, 4)
    layer(given)
    return layer, (given,)


def _unpool(rank: int) -> Example:
    def make() -> tuple[nn.Module, tuple[Any, ...]]:
        pool = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)
        return getattr(nn, f"MaxUnpool{rank}d")(2), tuple(pool(torch.randn(_BY_RANK[rank])))

    return make


def _elementwise() -> dict[str, Example]:
    names = (
        "AlphaDropout CELU Dropout ELU FeatureAlphaDropout GELU Hardshrink Hardsigmoid Hardswish Hardtanh Identity "
        "LeakyReLU LogSigmoid Mish PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softplus Softshrink Softsign Tanh "
        "Tanhshrink"
    )
    made = {name: _of(getattr(nn, name), (3, 5)) for name in names.split()}
    return made | {"Threshold": _of(lambda: nn.Threshold(0.1, -1.0), (3, 5)), "GLU": _of(nn.GLU, (3, 6))}


def _softmaxes() -> dict[str, Example]:
    made = {
        name: _of(lambda name=name: getattr(nn, name)(dim=1), (3, 5))  # type: ignore[misc]
        for name in ("LogSoftmax", "Softmax", "Softmin")
    }
    return made | {"Softmax2d": _of(nn.Softmax2d, _PLANE)}


def _pools() -> dict[str, Example]:
    return {
        **_by_rank("AdaptiveAvgPool", 2),
        **_by_rank("AdaptiveMaxPool", 2),
        **_by_rank("AvgPool", 2),
        **_by_rank("MaxPool", 2),
        **_by_rank("LPPool", 2, 2),
        **{f"MaxUnpool{rank}d": _unpool(rank) for rank in _BY_RANK},
        "FractionalMaxPool2d": _of(
            lambda: nn.FractionalMaxPool2d(2, output_size=3, _random_samples=torch.rand(2, 4, 2)), _PLANE
        ),
        "FractionalMaxPool3d": _of(
            lambda: nn.FractionalMaxPool3d(2, output_size=2, _random_samples=torch.rand(1, 2, 3)), _BLOCK
        ),
    }


def _pads() -> dict[str, Example]:
    return {
        **_by_rank("CircularPad", 1),
        **_by_rank("ConstantPad", 1, 0.5),
        **_by_rank("ReflectionPad", 1),
        **_by_rank("ReplicationPad", 1),
        **_by_rank("ZeroPad", 1),
    }


def _convolutions() -> dict[str, Example]:
    return {
        **_over_channels("Conv", 3, 3),
        **_over_channels("ConvTranspose", 3, 3),
        **_lazy("Conv", 3, 3),
        **_lazy("ConvTranspose", 3, 3),
        "Fold": _of(lambda: nn.Fold((4, 4), 2), (1, 8, 9)),
        "Unfold": _of(lambda: nn.Unfold(2), _PLANE),
        "ChannelShuffle": _of(lambda: nn.ChannelShuffle(2), _PLANE),
        "PixelShuffle": _of(lambda: nn.PixelShuffle(2), _PLANE),
        "PixelUnshuffle": _of(lambda: nn.PixelUnshuffle(2), _PLANE),
        "Upsample": _of(lambda: nn.Upsample(scale_factor=2), _PLANE),
        "UpsamplingBilinear2d": _of(lambda: nn.UpsamplingBilinear2d(scale_factor=2), _PLANE),
        "UpsamplingNearest2d": _of(lambda: nn.UpsamplingNearest2d(scale_factor=2), _PLANE),
    }


def _norms() -> dict[str, Example]:
    return {
        **_over_channels("BatchNorm"),
        **_over_channels("InstanceNorm"),
        **_lazy("BatchNorm"),
        **_lazy("InstanceNorm"),
        "SyncBatchNorm": _of(lambda: nn.SyncBatchNorm(4), _PLANE),
        "CrossMapLRN2d": _of(lambda: nn.CrossMapLRN2d(2), _PLANE),
        "LocalResponseNorm": _of(lambda: nn.LocalResponseNorm(2), _PLANE),
        "GroupNorm": _of(lambda: nn.GroupNorm(2, 4), _PLANE),
        "LayerNorm": _of(lambda: nn.LayerNorm(5), (3, 5)),
        "RMSNorm": _of(lambda: nn.RMSNorm(5), (3, 5)),
    }


def _recurrent() -> dict[str, Example]:
    made = {
        name: _of(lambda name=name: getattr(nn, name)(4, 3, num_layers=2, bidirectional=True), (5, 2, 4))  # type: ignore[misc]
        for name in ("RNN", "LSTM", "GRU")
    }
    return made | {
        f"{name}Cell": _of(lambda name=name: getattr(nn, f"{name}Cell")(4, 3), (2, 4))  # type: ignore[misc]
        for name in ("RNN", "LSTM", "GRU")
    }


def _transformers() -> dict[str, Example]:
    sizes = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "batch_first": True}
    source, target = (2, 5, 8), (2, 3, 8)
    return {
        "MultiheadAttention": _of(
            lambda: nn.MultiheadAttention(8, 2, batch_first=True), source, source, source
        ),
        "TransformerEncoderLayer": _of(lambda: nn.TransformerEncoderLayer(**sizes), source),  # type: ignore[arg-type]
        "TransformerDecoderLayer": _of(lambda: nn.TransformerDecoderLayer(**sizes), target, source),  # type: ignore[arg-type]
        "TransformerEncoder": _of(
            lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**sizes), 2),  # type: ignore[arg-type]
            source,
        ),
        "TransformerDecoder": _of(
            lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(**sizes), 2),  # type: ignore[arg-type]
            target,
            source,
        ),
        "Transformer": _of(
            lambda: nn.Transformer(num_encoder_layers=1, num_decoder_layers=1, **sizes),  # type: ignore[arg-type]
            source,
            target,
        ),
    }


def _losses() -> dict[str, Example]:
    alike = ["HuberLoss", "L1Loss", "MSELoss", "SmoothL1Loss"]
    pair, picture = (3, 5), (2, 5, 4, 4)
    return {
        **{name: _of(getattr(nn, name), pair, pair) for name in alike},
        "BCELoss": _with(nn.BCELoss, _share(*pair), _share(*pair)),
        "BCEWithLogitsLoss": _with(nn.BCEWithLogitsLoss, _random(*pair), _share(*pair)),
        "CTCLoss": _with(
            nn.CTCLoss,
            lambda: torch.randn(6, 2, 5).log_softmax(2),
            lambda: torch.randint(1, 5, (2, 3)),
            _same(6, 2),
            _same(3, 2),
        ),
        "CosineEmbeddingLoss": _with(nn.CosineEmbeddingLoss, _random(*pair), _random(*pair), _signs(3)),
        "CrossEntropyLoss": _with(nn.CrossEntropyLoss, _random(*pair), _classes(5, 3)),
        "GaussianNLLLoss": _with(nn.GaussianNLLLoss, _random(*pair), _random(*pair), _share(*pair)),
        "HingeEmbeddingLoss": _with(nn.HingeEmbeddingLoss, _random(*pair), _signs(*pair)),
        "KLDivLoss": _with(lambda: nn.KLDivLoss(reduction="batchmean"), _random(*pair), _share(*pair)),
        "LinearCrossEntropyLoss": _with(
            lambda: nn.LinearCrossEntropyLoss(4, 5), _random(3, 4), _classes(5, 3)
        ),
        "MarginRankingLoss": _with(nn.MarginRankingLoss, _random(3), _random(3), _signs(3)),
        "MultiLabelMarginLoss": _with(nn.MultiLabelMarginLoss, _random(*pair), _classes(5, *pair)),
        "MultiLabelSoftMarginLoss": _with(nn.MultiLabelSoftMarginLoss, _random(*pair), _share(*pair)),
        "MultiMarginLoss": _with(nn.MultiMarginLoss, _random(*pair), _classes(5, 3)),
        "NLLLoss": _with(nn.NLLLoss, _random(*pair), _classes(5, 3)),
        "NLLLoss2d": _with(nn.NLLLoss2d, _random(*picture), _classes(5, 2, 4, 4)),
        "PoissonNLLLoss": _with(nn.PoissonNLLLoss, _random(*pair), _share(*pair)),
        "SoftMarginLoss": _with(nn.SoftMarginLoss, _random(*pair), _signs(*pair)),
        "TripletMarginLoss": _of(nn.TripletMarginLoss, pair, pair, pair),
        "TripletMarginWithDistanceLoss": _of(nn.TripletMarginWithDistanceLoss, pair, pair, pair),
        "AdaptiveLogSoftmaxWithLoss": _with(
            lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6]), _random(3, 4), _classes(10, 3)
        ),
    }


def _others() -> dict[str, Example]:
    return {
        "Linear": _of(lambda: nn.Linear(4, 3), (2, 4)),
        "LazyLinear": _lazy_linear,
        "Bilinear": _of(lambda: nn.Bilinear(4, 3, 2), (2, 4), (2, 3)),
        "Embedding": _with(lambda: nn.Embedding(9, 4, padding_idx=0), _classes(9, 2, 5)),
        "EmbeddingBag": _with(lambda: nn.EmbeddingBag(9, 4, mode="mean"), _classes(9, 2, 5)),
        "CosineSimilarity": _of(nn.CosineSimilarity, (3, 5), (3, 5)),
        "PairwiseDistance": _of(nn.PairwiseDistance, (3, 5), (3, 5)),
        "DataParallel": _of(lambda: nn.DataParallel(nn.Linear(4, 3)), (2, 4)),
        "Dropout1d": _of(nn.Dropout1d, _LINE),
        "Dropout2d": _of(nn.Dropout2d, _PLANE),
        "Dropout3d": _of(nn.Dropout3d, _BLOCK),
        "Flatten": _of(nn.Flatten, _PLANE),
        "Unflatten": _of(lambda: nn.Unflatten(1, (2, 2)), _PLANE),
        "Sequential": _of(lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU()), (2, 4)),
    }


EXAMPLES: dict[str, Example] = {
    **_elementwise(),
    **_softmaxes(),
    **_pools(),
    **_pads(),
    **_convolutions(),
    **_norms(),
    **_recurrent(),
    **_transformers(),
    **_losses(),
    **_others(),
}
"""By the name of the class in torch.nn."""
