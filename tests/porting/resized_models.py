"""Models whose sizes are changed after they were ported: from Hugging Face configs, and written by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn

from torchport.capture.fields import with_numbers
from torchport.capture.rebuild import sizes_of
from torchport.capture.spec import load_spec

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


class Attention(nn.Module):
    """Attention written out, with a scale that follows from the width of a head."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, self.head_dim).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(2, 3) / self.head_dim**0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    """Keeps its arguments as attributes. The words' width is scaled by its root."""

    def __init__(
        self, words: int = 50, width: int = 32, heads: int = 4, depth: int = 2, inner: int = 64
    ) -> None:
        super().__init__()
        self.words, self.width, self.heads, self.depth, self.inner = words, width, heads, depth, inner
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width, heads, inner) for _ in range(depth)])
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) * self.width**0.5
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@dataclass
class Shape:
    channels: int = 8
    growth: int = 4
    patch: int = 4
    classes: int = 5
    groups: int = 2


class Patches(nn.Module):
    """Takes its sizes from a dataclass; in it 8 is a number of channels, and 8 is twice the growth."""

    def __init__(self, config: Shape) -> None:
        super().__init__()
        self.config = config
        self.stem = nn.Conv2d(3, config.channels, config.patch, stride=config.patch)
        self.mix = nn.Conv2d(config.channels, 2 * config.growth, 3, padding=1)
        self.norm = nn.GroupNorm(config.groups, config.growth * 2)
        self.head = nn.Linear(config.growth * 2, config.classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first, second = self.norm(self.mix(self.stem(image))).split(self.config.growth, dim=1)
        both = torch.cat([first * first.shape[1] ** -0.5, second.sigmoid()], dim=1)
        return self.head(both.mean((2, 3)))


class Tagger(nn.Module):
    """Keeps nothing that it is made from: only a factory says what its sizes are."""

    def __init__(self, words: int, width: int, tags: int, window: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.past = nn.Conv1d(width, width * 2, window, padding=window - 1)
        self.gate = nn.Parameter(torch.randn(2, width))
        self.read = nn.LSTM(width, width // 2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(width, tags)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mixed = self.past(self.embed(ids).transpose(1, 2))[:, :, : ids.shape[1]].transpose(1, 2)
        content, gate = (mixed.unflatten(-1, self.gate.shape) * self.gate).unbind(-2)
        return self.tags(self.read(content * gate.sigmoid())[0])


def tagger(
    words: int = 40, width: int = 16, tags: int = 8, window: int = 3
) -> tuple[nn.Module, tuple[Any, ...]]:
    return Tagger(words, width, tags, window), (torch.randint(0, 30, (2, 12)),)


def _noted_tagger() -> tuple[nn.Module, Inputs]:
    """The model of the factory, with its arguments noted, as any SPEC has them."""
    subject = load_spec("tests.porting.resized_models:tagger")
    return subject.model.eval(), (subject.args, {})


@dataclass(frozen=True)
class Case:
    """A model that is ported once, and the changes that are then made to its sizes, alone and together."""

    make: Callable[[], tuple[nn.Module, Inputs]]
    changes: tuple[dict[str, Any], ...]

    @property
    def edits(self) -> list[dict[str, Any]]:
        together = {name: value for change in self.changes for name, value in change.items()}
        return [*self.changes, together]


def other(model: nn.Module, change: Mapping[str, Any]) -> nn.Module:
    """The model with other sizes and weights of its own."""
    if isinstance(model, Tagger):
        return tagger(**change)[0].eval()
    config = getattr(model, "config", None)
    if config is None:
        return type(model)(**with_numbers(sizes_of(model), change)).eval()
    changed = copy.deepcopy(config)
    for name, value in change.items():
        base, bracket, index = name.partition("[")
        if bracket:
            items = list(getattr(changed, base))
            items[int(index[:-1])] = value
            setattr(changed, base, items)
        else:
            setattr(changed, base, value)
    return type(model)(changed).eval()


_SMALL = {
    "vocab_size": 99,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
_IMAGES = {name: size for name, size in _SMALL.items() if name != "vocab_size"}


def _ids(batch: int = 2, length: int = 12) -> torch.Tensor:
    return torch.randint(3, 90, (batch, length))


def _hf(
    name: str, inputs: Callable[[Any], Inputs], **sizes: Any
) -> Callable[[str], Callable[[], tuple[nn.Module, Inputs]]]:
    """A model of transformers, by how it computes attention."""
    kind = name.partition("For")[0].removesuffix("Model")

    def of_attention(attention: str) -> Callable[[], tuple[nn.Module, Inputs]]:
        def make() -> tuple[nn.Module, Inputs]:
            config = getattr(transformers, f"{kind}Config")(**sizes, attn_implementation=attention)
            config.use_cache = False
            return getattr(transformers, name)(config).eval(), inputs(config)

        return make

    return of_attention


def _text(_: Any) -> Inputs:
    return (_ids(),), {}


def _text_pair(_: Any) -> Inputs:
    return (_ids(),), {"decoder_input_ids": _ids(2, 7)}


def image_of(config: Any) -> Inputs:
    return (torch.randn(2, config.num_channels, config.image_size, config.image_size),), {}


def speech_of(config: Any) -> Inputs:
    sound = torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)
    return (sound,), {"decoder_input_ids": _ids(1, 7)}


INPUTS: dict[str, Callable[[Any], Inputs]] = {"ViT": image_of, "Swin": image_of, "Whisper": speech_of}
"""The models whose inputs change with their config."""


def one_by_one(**changes: Any) -> tuple[dict[str, Any], ...]:
    return tuple({name: value} for name, value in changes.items())


_TEXT_CHANGES = one_by_one(num_hidden_layers=3, hidden_size=96, vocab_size=120, intermediate_size=80)
_HF = {
    "bert": (
        _hf("BertModel", _text, **_SMALL),
        (*_TEXT_CHANGES, *one_by_one(num_attention_heads=8, max_position_embeddings=64, layer_norm_eps=1e-3)),
    ),
    "llama": (
        _hf("LlamaForCausalLM", _text, **_SMALL, num_key_value_heads=2),
        (*_TEXT_CHANGES, *one_by_one(num_attention_heads=6, head_dim=24, num_key_value_heads=3)),
    ),
    "phi": (
        _hf("PhiForCausalLM", _text, **_SMALL),
        (*_TEXT_CHANGES, {"num_attention_heads": 8, "num_key_value_heads": 8}),
    ),
    "vit": (
        _hf("ViTModel", image_of, **_IMAGES, image_size=32, patch_size=8),
        one_by_one(
            num_hidden_layers=3, hidden_size=96, num_attention_heads=8, intermediate_size=80, image_size=48
        ),
    ),
    "swin": (
        _hf(
            "SwinModel",
            image_of,
            image_size=32,
            patch_size=2,
            embed_dim=24,
            depths=[2, 2],
            num_heads=[3, 6],
            window_size=4,
        ),
        one_by_one(**{"embed_dim": 36, "num_heads[1]": 3, "num_heads[0]": 6, "num_channels": 1}),
    ),
    "t5": (
        _hf(
            "T5Model",
            _text_pair,
            vocab_size=99,
            d_model=64,
            d_kv=16,
            d_ff=128,
            num_layers=2,
            num_decoder_layers=3,
            num_heads=4,
        ),
        one_by_one(
            num_layers=3, num_decoder_layers=2, d_model=48, num_heads=2, d_kv=24, d_ff=80, vocab_size=120
        ),
    ),
    "whisper": (
        _hf(
            "WhisperModel",
            speech_of,
            vocab_size=99,
            d_model=64,
            encoder_layers=2,
            decoder_layers=3,
            encoder_attention_heads=4,
            decoder_attention_heads=2,
            encoder_ffn_dim=128,
            decoder_ffn_dim=96,
            num_mel_bins=20,
            max_source_positions=30,
            max_target_positions=40,
            pad_token_id=1,
            bos_token_id=2,
            eos_token_id=2,
            decoder_start_token_id=3,
        ),
        one_by_one(
            encoder_layers=3,
            decoder_layers=2,
            d_model=48,
            encoder_attention_heads=2,
            decoder_attention_heads=4,
            encoder_ffn_dim=80,
            decoder_ffn_dim=72,
            vocab_size=120,
            num_mel_bins=30,
            max_source_positions=40,
        ),
    ),
}
CASES = {
    **{
        f"{name}_{attention}": Case(make(attention), changes)
        for name, (make, changes) in _HF.items()
        for attention in ("eager", "sdpa")
    },
    "decoder": Case(
        lambda: (Decoder().eval(), ((torch.randint(0, 40, (2, 9)),), {})),
        one_by_one(words=70, width=48, heads=2, depth=3, inner=40),
    ),
    "patches": Case(
        lambda: (Patches(Shape()).eval(), ((torch.randn(2, 3, 16, 16),), {})),
        one_by_one(channels=12, growth=6, patch=8, classes=7, groups=4),
    ),
    "tagger": Case(_noted_tagger, one_by_one(words=50, width=24, tags=11, window=5)),
}
