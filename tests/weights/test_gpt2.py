"""A checkpoint of transformers' GPT-2 becomes the weights of a model that has its layers otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from torchport.capture.recorder import record
from torchport.events import ignore
from torchport.porting.extracting import extract_weights, map_checkpoint

WIDTH, HEADS, LAYERS, WORDS, PLACES = 32, 4, 2, 50, 16


class Attention(nn.Module):
    """Attention with a layer for each of queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, HEADS, -1).transpose(1, 2) for layer in (self.q, self.k, self.v)
        )
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: torch.Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return result


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        result: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return result


class Own(nn.Module):
    """GPT-2 with linear layers instead of Conv1D, and none of them fused."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        result: torch.Tensor = self.head(self.norm(x))
        return result


RULES = r"""
prefix: transformer.
rules:
  - {rename: 'wte\.weight', to: words.weight}
  - {rename: 'wpe\.weight', to: places.weight}
  - {rename: 'ln_f\.(.*)', to: 'norm.\1'}
  - {rename: 'h\.(\d+)\.ln_(\d)\.(.*)', to: 'blocks.\1.norm\2.\3'}
  - {transpose: '.*\.(c_attn|c_proj|c_fc)\.weight'}
  - split: 'h\.(\d+)\.attn\.c_attn\.(weight|bias)'
    into: ['blocks.\1.attention.q.\2', 'blocks.\1.attention.k.\2', 'blocks.\1.attention.v.\2']
  - {rename: 'h\.(\d+)\.attn\.c_proj\.(.*)', to: 'blocks.\1.attention.out.\2'}
  - {rename: 'h\.(\d+)\.mlp\.c_fc\.(.*)', to: 'blocks.\1.up.\2'}
  - {rename: 'h\.(\d+)\.mlp\.c_proj\.(.*)', to: 'blocks.\1.down.\2'}
"""


@pytest.fixture(scope="module")
def theirs() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=WORDS, n_positions=PLACES, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS,
        initializer_range=0.3, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval()


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with torch.device("meta"):
        model = Own()
    ids = torch.zeros(1, 5, dtype=torch.int64)
    return record(model.eval(), (ids,), name="own").save(tmp_path_factory.mktemp("own"))["manifest"]


def in_shards(folder: Path, model: nn.Module, ending: str) -> Path:
    """The state dict in two files with an index, as transformers writes it."""
    state = {
        name: tensor.contiguous() for name, tensor in model.state_dict().items() if name != "lm_head.weight"
    }
    names = list(state)
    files = [f"pytorch_model-0000{number}-of-00002.{ending}" for number in (1, 2)]
    weight_map = {}
    for at, file in enumerate(files):
        part = {name: state[name] for name in names[at::2]}
        torch.save(part, folder / file)
        weight_map |= dict.fromkeys(part, file)
    index = folder / f"pytorch_model.{ending}.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return index


def filled(path: Path) -> Own:
    model = Own()
    model.load_state_dict(load_file(path) | {"head.weight": load_file(path)["words.weight"]})
    return model.eval()


@pytest.mark.parametrize("source", ["index", "folder"])
def test_a_fused_checkpoint_in_shards_computes_what_transformers_computes(
    theirs: GPT2LMHeadModel, manifest: Path, tmp_path: Path, source: str
) -> None:
    index = in_shards(tmp_path, theirs, "bin")
    (tmp_path / "rules.yaml").write_text(RULES)
    out = tmp_path / "out" / "model.safetensors"
    given = index if source == "index" else tmp_path
    result = extract_weights(
        [given], manifest, out=out, rules=tmp_path / "rules.yaml", prefixes=(), watch=ignore
    )
    assert result["status"] == "extracted" and not result["missing"] and not result["left_over"]
    ids = torch.randint(WORDS, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(filled(out)(ids), theirs(ids).logits, rtol=1e-4, atol=1e-4)


def test_a_shard_of_a_checkpoint_that_is_gone_or_cut_off_is_named(
    theirs: GPT2LMHeadModel, manifest: Path, tmp_path: Path
) -> None:
    index = in_shards(tmp_path, theirs, "bin")
    shard = tmp_path / "pytorch_model-00002-of-00002.bin"
    whole = shard.read_bytes()
    for content in (whole[: len(whole) // 2], None):
        if content is None:
            shard.unlink()
        else:
            shard.write_bytes(content)
        with pytest.raises(Exception, match=r"TP0322.*pytorch_model-00002-of-00002\.bin"):
            extract_weights([index], manifest, out=None, rules=None, prefixes=(), watch=ignore)


def test_the_rules_that_are_suggested_split_and_turn_what_is_fused_and_turned(
    theirs: GPT2LMHeadModel, manifest: Path, tmp_path: Path
) -> None:
    """Names that say which layer is which, weights as `Linear` has them but for `up`, and one tensor for q, k and v."""
    state: dict[str, torch.Tensor] = {}
    for name, tensor in Own().state_dict().items():
        if name != "head.weight":
            state[name] = tensor.T.contiguous() if name.endswith("up.weight") else tensor
    for block in range(LAYERS):
        for kind in ("weight", "bias"):
            parts = [state.pop(f"blocks.{block}.attention.{part}.{kind}") for part in "qkv"]
            state[f"blocks.{block}.attention.qkv.{kind}"] = torch.cat(parts)
    torch.save(state, tmp_path / "a.pt")
    rules = tmp_path / "rules.yaml"
    found = map_checkpoint([tmp_path / "a.pt"], manifest, out=rules, prefixes=())
    assert "split: 'blocks" in found["rules"] and "transpose: 'blocks" in found["rules"]
    out = tmp_path / "model.safetensors"
    extract_weights([tmp_path / "a.pt"], manifest, out=out, rules=rules, prefixes=(), watch=ignore)
    made = load_file(out)
    for block in range(LAYERS):
        for kind in ("weight", "bias"):
            parts = [made[f"blocks.{block}.attention.{part}.{kind}"] for part in "qkv"]
            assert torch.equal(torch.cat(parts), state[f"blocks.{block}.attention.qkv.{kind}"])
        assert torch.equal(made[f"blocks.{block}.up.weight"], state[f"blocks.{block}.up.weight"].T)
