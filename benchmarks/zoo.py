"""The zoo: models that must port with no TODO and pass at every layer, one short factory each.

Every factory is a SPEC: `torchport port benchmarks/zoo.py:bert --to candle`. Weights are random and seeded. `PROVEN` is
what the tests run; `make zoo` runs all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Subject = tuple[nn.Module, tuple] | tuple[nn.Module, tuple, dict[str, Any]]
Factory = Callable[[], Subject]
ZOO: dict[str, Factory] = {}
PROVEN: list[str] = []

SMALL = {
    "vocab_size": 99,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}


def entry(factory: Factory, name: str | None = None, *, proven: bool = True) -> Factory:
    """Adds a factory, seeded, under its name."""
    label = name or factory.__name__

    def seeded() -> Subject:
        torch.manual_seed(0)
        model, *inputs = factory()
        return (model.eval(), *inputs)  # type: ignore[return-value]

    seeded.__name__ = label
    ZOO[label] = seeded
    if proven:
        PROVEN.append(label)
    globals()[label] = seeded
    return seeded


def ids(batch: int = 1, length: int = 16) -> torch.Tensor:
    return torch.randint(3, 99, (batch, length))


# torch.nn


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


def train_statistics(model: nn.Module, batch: Callable[[], tuple]) -> None:
    """Lets BatchNorm see data, so that its statistics are not the initial ones."""
    model.train()
    with torch.no_grad():
        for _ in range(3):
            model(*batch())
    model.eval()


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


# transformers


def _hf(name: str, **overrides: Any) -> nn.Module:
    import transformers

    config_name = overrides.pop("config", name.split("For")[0].removesuffix("Model").removesuffix("LMHead"))
    config = getattr(transformers, f"{config_name}Config")(**{**SMALL, **overrides})
    config.use_cache = False
    return getattr(transformers, name)(config)


def _text(name: str, label: str, *, proven: bool = False, **overrides: Any) -> None:
    entry(lambda: (_hf(name, **overrides), (ids(),)), label, proven=proven)


_text("BertModel", "bert", proven=True)
_text("RobertaModel", "roberta", proven=True)
_text("GPT2LMHeadModel", "gpt2", proven=True, config="GPT2", n_positions=64, bos_token_id=1, eos_token_id=2)
_text("LlamaForCausalLM", "llama", proven=True, num_key_value_heads=2)
_text("Qwen3ForCausalLM", "qwen3", proven=True, num_key_value_heads=2, head_dim=16)
_text("DistilBertModel", "distilbert", dim=64, n_layers=2, n_heads=4, hidden_dim=128)
_text("AlbertModel", "albert", embedding_size=32)
_text("GPTNeoXForCausalLM", "gpt_neox")
_text("OPTForCausalLM", "opt", ffn_dim=128, word_embed_proj_dim=64, pad_token_id=1)
_text("MistralForCausalLM", "mistral", num_key_value_heads=2)
_text("Qwen2ForCausalLM", "qwen2", num_key_value_heads=2)
_text("GemmaForCausalLM", "gemma", num_key_value_heads=2, head_dim=16)
_text("Gemma2ForCausalLM", "gemma2", num_key_value_heads=2, head_dim=16)
_text("PhiForCausalLM", "phi")
_text(
    "ModernBertModel",
    "modernbert",
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    cls_token_id=1,
    sep_token_id=2,
)


@entry
def vit() -> Subject:
    return _hf("ViTModel", image_size=32, patch_size=8), (torch.randn(1, 3, 32, 32),)


@entry
def whisper() -> Subject:
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=99,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_source_positions=50,
        max_target_positions=32,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    return model, (torch.randn(1, 80, 100),), {"decoder_input_ids": ids()}


# torchvision and timm


def _torchvision(name: str, *, proven: bool = False, size: int = 224) -> None:
    def build() -> Subject:
        import torchvision

        model = getattr(torchvision.models, name)(weights=None)
        return model, (torch.randn(1, 3, size, size),)

    entry(build, name, proven=proven)


def _timm(name: str, *, proven: bool = False, size: int = 224) -> None:
    def build() -> Subject:
        import timm

        return timm.create_model(name, pretrained=False), (torch.randn(1, 3, size, size),)

    entry(build, name, proven=proven)


for _name in ("resnet18", "mobilenet_v3_small", "vit_b_16", "convnext_tiny", "swin_t"):
    _torchvision(_name, proven=True)
for _name in [
    "efficientnet_b0",
    "swin_v2_t",
    "densenet121",
    "googlenet",
    "shufflenet_v2_x1_0",
    "squeezenet1_0",
    "regnet_y_400mf",
    "maxvit_t",
    "mnasnet0_5",
    "vgg11",
    "alexnet",
]:
    _torchvision(_name)
_timm("mixer_s32_224", proven=True)
_timm("mobilevit_xxs", proven=True, size=256)
for _name in [
    "mobilenetv4_conv_small",
    "vit_tiny_patch16_224",
    "convnextv2_atto",
    "levit_128s",
    "xcit_nano_12_p16_224",
    "repvgg_a0",
    "eva02_tiny_patch14_224",
    "poolformerv2_s12",
    "ghostnetv2_100",
    "hiera_tiny_224",
]:
    _timm(_name)
