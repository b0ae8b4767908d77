"""Language models of transformers, and those that read text and pictures."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .entries import OTHER_SIZES, SMALL, Subject, entry, ids, in_zoo


def hugging_face(name: str, **overrides: Any) -> nn.Module:
    import transformers

    config_name = overrides.pop("config", name.split("For")[0].removesuffix("Model").removesuffix("LMHead"))
    config = getattr(transformers, f"{config_name}Config")(**{**SMALL, **overrides})
    config.use_cache = False
    return getattr(transformers, name)(config)


def _text(name: str, label: str, *, proven: bool = False, **overrides: Any) -> None:
    entry(lambda: (hugging_face(name, **overrides), (ids(),)), label, proven=proven)


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
_text("MixtralForCausalLM", "mixtral", num_key_value_heads=2, num_local_experts=4)
_text("MambaModel", "mamba", state_size=4)
_text(
    "Mamba2Model",
    "mamba2",
    hidden_size=32,
    num_hidden_layers=1,
    state_size=8,
    num_heads=8,
    head_dim=8,
    n_groups=2,
    chunk_size=8,
)

OTHER_SIZES["bert"] = "input_ids:0,input_ids:1", lambda: (ids(3, 23),)
OTHER_SIZES["llama"] = "input_ids:0,input_ids:1", lambda: (ids(2, 9),)
# Chunks of 8: the recorded length fills two, this one is padded.
OTHER_SIZES["mamba2"] = "input_ids:0,input_ids:1", lambda: (ids(3, 21),)


@in_zoo
def t5() -> Subject:
    sizes = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
    model = hugging_face("T5ForConditionalGeneration", **sizes, decoder_start_token_id=0)
    return model, (ids(),), {"decoder_input_ids": ids(length=7)}


@in_zoo
def bart() -> Subject:
    halves = ("encoder", "decoder")
    sizes: dict[str, int] = {f"{half}_layers": 2 for half in halves}
    sizes |= {f"{half}_attention_heads": 4 for half in halves} | {f"{half}_ffn_dim": 128 for half in halves}
    return hugging_face("BartModel", d_model=64, **sizes), (ids(),), {"decoder_input_ids": ids(length=7)}


@in_zoo
def clip() -> Subject:
    import transformers

    text = {**SMALL, "eos_token_id": 2, "max_position_embeddings": 32}
    vision = {**SMALL, "image_size": 32, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=32)
    tokens = torch.cat([ids(2, 15), torch.full((2, 1), 2)], dim=1)
    return (
        transformers.CLIPModel(config),
        (),
        {"input_ids": tokens, "pixel_values": torch.randn(3, 3, 32, 32)},
    )
