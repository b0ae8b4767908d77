"""Architectures of transformers, by the class of the bare model, with a config in which every size is small."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

SMALL: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 64,
    "d_model": 64,
    "n_embd": 64,
    "dim": 64,
    "embed_dim": 64,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "n_layer": 2,
    "n_layers": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_attention_heads": 4,
    "num_heads": 4,
    "n_head": 4,
    "n_heads": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "ffn_dim": 128,
    "d_ff": 128,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "moe_intermediate_size": 32,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "image_size": 32,
    "patch_size": 8,
}
MOST_PARAMETERS = 40e6


def names() -> Iterable[str]:
    """The classes of bare models, one for each kind of config."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    for name in MODEL_MAPPING_NAMES.values():
        yield name if isinstance(name, str) else name[0]


def build(name: str) -> Any:
    import transformers

    torch.manual_seed(0)
    kind: Any = getattr(transformers, name)
    config = small(kind.config_class)
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in kind(config).parameters())
    if parameters > MOST_PARAMETERS:
        raise ValueError(f"{name} has {parameters / 1e6:.0f} M parameters, too many to draw")
    model = kind(config).eval()
    return model, (), inputs(model, config)


def small(kind: Any) -> Any:
    """The config with all sizes small that it has, also in the configs that it holds."""
    default = kind()
    sizes = {name: value for name, value in SMALL.items() if _takes(default, name)}
    parts = {
        name: small(part)
        for name, part in getattr(kind, "sub_configs", {}).items()
        if isinstance(part, type) and hasattr(part, "model_type") and part.model_type
    }
    config = kind(**sizes, **parts)
    if hasattr(config, "use_cache"):
        config.use_cache = False
    return config


def _takes(config: Any, name: str) -> bool:
    return type(getattr(config, name, None)) is int


def inputs(model: nn.Module, config: Any) -> dict[str, torch.Tensor]:
    """What the model's `forward` takes, by the names that transformers gives to inputs."""
    image, channels = getattr(config, "image_size", 32), getattr(config, "num_channels", 3)
    height, width = image if isinstance(image, list | tuple) else (image, image)
    vocabulary = min(99, getattr(config, "vocab_size", 99) or 99)
    known = {
        "input_ids": lambda: torch.randint(3, vocabulary, (1, 16)),
        "decoder_input_ids": lambda: torch.randint(3, vocabulary, (1, 7)),
        "pixel_values": lambda: torch.randn(1, channels, height, width),
        "input_values": lambda: torch.randn(1, 4000),
        "input_features": lambda: torch.randn(1, getattr(config, "num_mel_bins", 80), 100),
    }
    parameters = inspect.signature(model.forward).parameters
    named = {str(getattr(model, "main_input_name", "input_ids"))}
    named |= (
        {"decoder_input_ids"} & set(parameters) if getattr(config, "is_encoder_decoder", False) else set()
    )
    named |= {"pixel_values"} & set(parameters) if hasattr(config, "vision_config") else set()
    return {name: known[name]() for name in sorted(named) if name in known}
