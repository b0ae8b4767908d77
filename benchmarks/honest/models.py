"""Models to be rewritten: small ones, with sums from 16 to 4608 terms, split in two halves.

What is calibrated is calibrated on one half, and reported on the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from .. import zoo
from ..faults.models import MODELS as FAULTY
from ..faults.models import lively
from ..faults.scales import MODELS as SCALES
from .rewriting import Example

Half = Literal["calibration", "held-out"]


class LoraLinear(nn.Module):
    """A linear layer with an adapter of low rank beside it."""

    def __init__(self, size: int, rank: int = 4) -> None:
        super().__init__()
        self.base = nn.Linear(size, size)
        self.down, self.up = nn.Linear(size, rank, bias=False), nn.Linear(rank, size, bias=False)
        self.scale = 2.0

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x) + self.scale * self.up(self.down(x))
        return y


class Adapted(nn.Module):
    """A block with adapters, its norm and projection in a row."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.first, self.second = LoraLinear(size), LoraLinear(size)
        self.head = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 32), nn.GELU(), nn.Linear(32, 10))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.second(F.gelu(self.first(x), approximate="tanh"))
        y: Tensor = self.head(x)
        return y


class Gates(nn.Module):
    """A gated scan: softplus steps, running sums, an RMS norm, convolutions and linear layers with weight norm."""

    def __init__(self, size: int = 48) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, size)
        self.conv = weight_norm(nn.Conv1d(size, size, 4, padding=3, groups=size))
        self.step, self.gate = nn.Linear(size, size), weight_norm(nn.Linear(size, size))
        self.norm, self.out = nn.RMSNorm(size, eps=1e-6), nn.Linear(size, 24)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        mixed = F.silu(self.conv(x.mT)[..., : x.shape[1]]).mT
        decay = F.softplus(self.step(mixed)).cumsum(1)
        y: Tensor = self.out(self.norm(mixed * torch.exp(-0.1 * decay) * torch.sigmoid(self.gate(x))))
        return F.log_softmax(y, dim=-1)


class FeatureMap(nn.Module):
    """Means over a large map of numbers of one sign, where the order of a sum matters most."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)
        self.squeeze, self.head = nn.Linear(16, 16), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.stem(x)))
        x = x * torch.sigmoid(self.squeeze(x.mean(dim=(2, 3))))[:, :, None, None]
        y: Tensor = self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return y


class Wide(nn.Module):
    """Long sums of numbers of one sign, as after a ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(64, 1024), nn.Linear(1024, 64), nn.LayerNorm(64)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x + self.down(F.relu(self.up(x))))
        return y


def residual() -> tuple[nn.Module, tuple[Any, ...]]:
    """A ResNet of a block for each width, with sums of up to 4608 terms; the last block is one convolution."""
    from torchvision.models.resnet import BasicBlock, ResNet

    model = ResNet(BasicBlock, [1, 1, 1, 1], num_classes=20)
    widen, last = nn.Conv2d(256, 512, 1, stride=2), nn.Conv2d(512, 32, 3, padding=1)
    model.layer4, model.fc = nn.Sequential(widen, nn.ReLU(), last), nn.Linear(32, 20)
    return model, (torch.randn(2, 3, 48, 48),)


def small_mobilenet() -> tuple[nn.Module, tuple[Any, ...]]:
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

    blocks = [
        InvertedResidualConfig(16, 3, 16, 16, True, "RE", 2, 1, 1.0),
        InvertedResidualConfig(16, 3, 64, 24, False, "HS", 1, 1, 1.0),
        InvertedResidualConfig(24, 5, 96, 24, True, "HS", 1, 2, 1.0),
    ]
    return MobileNetV3(blocks, 128, num_classes=20), (torch.randn(2, 3, 32, 32),)


def small_convnext() -> tuple[nn.Module, tuple[Any, ...]]:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(32, 64, 1), CNBlockConfig(64, None, 1)]), (torch.randn(2, 3, 32, 32),)


def text(name: str, **options: Any) -> Callable[[], tuple[Any, ...]]:
    """A language model of transformers with one layer, on two texts."""
    return lambda: (zoo._hf(name, **{"num_hidden_layers": 1, **options}), (zoo.ids(2, 16),))


def small_vit() -> tuple[nn.Module, tuple[Any, ...]]:
    model = zoo._hf("ViTModel", image_size=32, patch_size=8, num_hidden_layers=1)
    return model, (torch.randn(2, 3, 32, 32),)


OWN: dict[str, Callable[[], Any]] = {
    "residual": residual,
    "mobilenet": small_mobilenet,
    "convnext": small_convnext,
    "bert": text("BertModel"),
    "gpt2": text("GPT2LMHeadModel", config="GPT2", n_positions=64, bos_token_id=1, eos_token_id=2),
    "llama": text("LlamaForCausalLM", num_key_value_heads=2),
    "qwen3": text("Qwen3ForCausalLM", num_key_value_heads=2, head_dim=16),
    "gemma2": text("Gemma2ForCausalLM", num_key_value_heads=2, head_dim=16),
    "albert": text("AlbertModel", embedding_size=32, num_hidden_layers=2),
    "vit": small_vit,
    "adapted": lambda: (Adapted(), (torch.randn(2, 12, 64),)),
    "gates": lambda: (Gates(), (torch.randint(0, 40, (2, 20)),)),
    "feature_map": lambda: (FeatureMap(), (torch.rand(2, 3, 64, 64),)),
    "wide": lambda: (Wide(), (torch.randn(4, 8, 64),)),
}
FROM_THE_CAMPAIGN = (
    "mlp",
    "cnn",
    "encoder_layer",
    "encoder_layer_norm_first",
    "attention",
    "lstm",
    "decoder",
    "rotary",
    "unet",
    "upscaler",
    "audio",
    "crnn",
    "translator",
    "buckets",
    "tagger",
    "flow",
    *SCALES,
)
MODELS: dict[str, Callable[[], Any]] = {
    **{name: lively(factory) for name, factory in OWN.items()},
    **{name: FAULTY[name] for name in FROM_THE_CAMPAIGN},
}


def half_of(name: str) -> Half:
    """Every second model is held out, in the order of the table: families have some in either half."""
    return "held-out" if list(MODELS).index(name) % 2 else "calibration"


def example_of(name: str) -> Example:
    model, args, *kwargs = MODELS[name]()
    return Example(name, model, tuple(args), dict(kwargs[0]) if kwargs else {})
