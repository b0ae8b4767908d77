"""What the promises of a target are tried on: a small model, and how to break an artifact of each target.

A target that joins brings a `Sabotage` of its own and nothing else; every promise in `test_conformance.py` then holds
for it or fails.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

Break = Callable[[Path], None]


class Block(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dense = nn.Linear(size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + nn.functional.gelu(self.dense(self.norm(x)))


class Net(nn.Module):
    """Blocks in a list, one of them used twice, square weights, two inputs and two outputs."""

    def __init__(self, size: int = 24) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(size) for _ in range(2))
        self.head = nn.Linear(size, 5)

    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for block in (*self.blocks, self.blocks[0]):
            x = block(x)
        return self.head(x * scale), x


def model_and_inputs() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(4, 24), torch.rand(24) + 0.5)


@dataclass(frozen=True)
class Sabotage:
    """Ways to change the artifact in a folder, as a user or an accident would."""

    gelu_as_tanh: Break
    """Every gelu is computed by the approximation with tanh: `blocks.0` is to blame, at the operation gelu."""
    crash_at_the_head: Break
    """The head cannot be reached or computed; all before it can."""


def spoil_weight(stored: Path, name: str) -> None:
    """Puts another tensor in the place of one that the artifact loads."""
    tensors = load_file(stored)
    tensors[name] = tensors[name] * 1.5
    save_file(tensors, stored)


def _edit_rust(old: str, new: str) -> Break:
    def change(folder: Path) -> None:
        source = folder / "src" / "model.rs"
        text = source.read_text()
        assert old in text
        source.write_text(text.replace(old, new))

    return change


def _edit_graph(op: str, **change: object) -> Break:
    def edit(folder: Path) -> None:
        path = folder / "graph.json"
        data = json.loads(path.read_text())
        nodes = [node for module in data["modules"] for node in module["nodes"] if node["op"] == op]
        assert nodes
        for node in nodes:
            node.update(change)
        path.write_text(json.dumps(data, indent=1))

    return edit


def _crash_head(folder: Path) -> None:
    """The head multiplies by a matrix that does not fit."""
    path = folder / "graph.json"
    data = json.loads(path.read_text())
    (head,) = (module for module in data["modules"] if module["key"] == "head")
    head["nodes"][0]["op"] = "aten.mm.default"
    head["nodes"][0]["args"] = head["nodes"][0]["args"][:1] * 2
    path.write_text(json.dumps(data, indent=1))


def _edit_neurons(work: str, change: Callable[[dict[str, Any]], None]) -> Break:
    """Changes every group of a neuron graph that does this work."""

    def edit(folder: Path) -> None:
        path = folder / "neurons.json"
        data = json.loads(path.read_text())
        groups = [group for step in data["steps"] for group in step.get("groups", ())]
        chosen = [group for group in groups if group["work"] == work]
        assert chosen
        for group in chosen:
            change(group)
        path.write_text(json.dumps(data, indent=1))

    return edit


def _tanh(group: dict[str, Any]) -> None:
    group["options"]["approximate"] = "tanh"


def _crash_in_head(group: dict[str, Any]) -> None:
    """The values of the head cannot be wired to rows of seven."""
    if group["layer"] == "head":
        group["kind"], group["work"] = "wiring", "aten.reshape.default"
        group["options"] = {"order": [["self", None]], "shape": [-1, 7]}


SABOTAGE = {
    "marble": Sabotage(_edit_neurons("aten.gelu.default", _tanh), _edit_neurons("dense", _crash_in_head)),
    "torch": Sabotage(_edit_graph("aten.gelu.default", kwargs={"approximate": "tanh"}), _crash_head),
    "candle": Sabotage(
        _edit_rust("ops::gelu(", "ops::gelu_tanh("),
        _edit_rust(".apply(&self.head)?", ".get(99)?.apply(&self.head)?"),
    ),
}
