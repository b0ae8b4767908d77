"""Faults in the generated Rust, as a user's edit would make them: a change of text in the code of one struct."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    """Replaces the first match in the struct's code. `module` is the first that runs with it, `node` its operation."""

    model: str
    module: str
    struct: str
    pattern: str
    replacement: str
    node: str | None = None

    def make(self, project: Path) -> None:
        path = project / "src" / "model.rs"
        text = path.read_text()
        start = text.index(f"struct {self.struct} ")
        following = re.search(r"\n(pub )?struct ", text[start + 1 :])
        end = start + 1 + following.start() if following else len(text)
        code, count = re.subn(self.pattern, self.replacement, text[start:end], count=1, flags=re.DOTALL)
        if count != 1 or code == text[start:end]:
            raise LookupError(f"{self.pattern} is not in {self.struct} of {self.model}")
        path.write_text(text[:start] + code + text[end:])


def untie(project: Path, name: str) -> None:
    """A weight that is another's is read under its own name."""
    path = project / "src" / "model.rs"
    text, count = re.subn(rf'"{re.escape(name)}" => "[^"]+"', f'"{name}" => "{name}"', path.read_text())
    if count != 1:
        raise LookupError(f"{name} is not tied")
    path.write_text(text)


_DROPOUT = r"candle_nn::ops::dropout(&\1, 0.1)?"
SOURCE: dict[str, list[Edit]] = {
    "epsilon": [
        Edit(
            "bert",
            "encoder.layer.0.attention.output.LayerNorm",
            "BertSelfOutput",
            r"cfg\.layer_norm_eps",
            "1e-5",
        ),
        Edit(
            "llama", "model.layers.0.input_layernorm", "LlamaRMSNorm", r"\+ self\.rms_norm_eps\)", "+ 1e-5)"
        ),
        Edit("resnet18", "layer1.0.bn1", "BasicBlock", "1e-5", "1e-4"),
    ],
    "gelu for gelu-tanh": [
        Edit(
            "bert",
            "encoder.layer.0.intermediate.intermediate_act_fn",
            "BertIntermediate",
            r"nn::gelu\(",
            "nn::gelu_tanh(",
        ),
        Edit(
            "whisper",
            "model.encoder.layers.0.activation_fn",
            "WhisperEncoderLayer",
            r"nn::gelu\(",
            "nn::gelu_tanh(",
        ),
        Edit("vit", "layers.0.mlp.activation_fn", "ViTMLP", r"nn::gelu\(", "nn::gelu_tanh("),
    ],
    "scale missing": [
        Edit(
            "bert",
            "encoder.layer.0.attention.self",
            "BertSelfAttention",
            r"false,\s*None",
            "false, Some(1.0)",
        ),
        Edit("gpt2", "transformer.h.0.attn", "GPT2Attention", r"false,\s*None", "false, Some(1.0)"),
        Edit("vit", "layers.0.attention", "ViTAttention", r"false,\s*None", "false, Some(1.0)"),
    ],
    "scale off by 0.03 %": [
        Edit("masked_by_a_billion", "", "MaskedAttention", r"0\.17677\d+", "0.17683"),
        Edit("masked_by_the_least", "", "MaskedAttention", r"0\.17677\d+", "0.17683"),
    ],
    "residual dropped": [
        Edit(
            "bert",
            "encoder.layer.0.output",
            "BertOutput",
            r"\((self\.dense\.forward\(\w+\)\?) \+ \w+\)\?",
            r"\1",
        ),
        Edit(
            "gpt2",
            "transformer.h.0",
            "GPT2Block",
            r"\((self\.attn\.forward\([^;]*\)\?) \+ xs\)\?;",
            r"\1;",
            "add",
        ),
        Edit("resnet18", "layer1.0", "BasicBlock", r"\(&out \+ \w+\)\?", "out.clone()"),
    ],
    "activation": [
        Edit("resnet18", "layer1.0.relu", "BasicBlock", r"nn::relu\(", "nn::leaky_relu(1e-2, "),
        Edit("llama", "model.layers.0.mlp.act_fn", "LlamaMLP", r"nn::silu\(", "nn::gelu("),
        Edit("opt", "model.decoder.layers.0.activation_fn", "OPTDecoderLayer", r"nn::relu\(", "nn::gelu("),
    ],
    "dropout left on": [
        Edit(
            "bert",
            "encoder.layer.0.attention.output",
            "BertSelfOutput",
            r"(self\.dense\.forward\(\w+\)\?)",
            _DROPOUT,
            "add",
        ),
        Edit(
            "gpt2",
            "transformer.h.0",
            "GPT2Block",
            r"(self\.attn\.forward\([^;]*\)\?)(?= \+ xs)",
            _DROPOUT,
            "add",
        ),
        Edit(
            "resnet18", "layer1.0", "BasicBlock", r"&out(?= \+)", "candle_nn::ops::dropout(&out, 0.1)?", "add"
        ),
    ],
}
