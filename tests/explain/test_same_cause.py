"""Layers of one class are said to fail in the same way only if one cause explains them all."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import torchport
from torchport import Port, Report
from torchport.report import phrases
from torchport.runs.findings import findings

pytestmark = pytest.mark.slow


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dense(x).tanh() - 2 * x


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(*(Block() for _ in range(4))).eval()
    folder = tmp_path_factory.mktemp("same_cause") / "net"
    torchport.port(model, torch.randn(3, 8), target="torch", out=folder, name="net")
    return folder


@pytest.fixture
def port(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "net"))


def with_operations(port: Path, instead_of_sub: dict[str, str]) -> Report:
    """The verdict if the blocks of these paths compute something else than sub."""
    file = port / "graph/graph.json"
    graph: dict[str, Any] = json.loads(file.read_text())
    for module in graph["modules"]:
        for node in module["nodes"]:
            if node["op"] == "aten.sub.Tensor" and module["key"] in instead_of_sub:
                node["op"] = f"aten.{instead_of_sub[module['key']]}.Tensor"
    file.write_text(json.dumps(graph))
    return Port.open(port).check()


def grouped(report: Report) -> list[list[str]]:
    return [[layer.name for layer in finding.layers] for finding in findings(report)]


def test_one_operation_that_is_wrong_in_several_blocks_is_one_fault(port: Path) -> None:
    report = with_operations(port, {"0": "add", "2": "add"})
    assert grouped(report) == [["0", "2"]] and findings(report)[0].is_one_fault
    measured = phrases.measure(report)
    assert measured is not None and "2 of 9 layers diverge, all in the same way" in measured


def test_two_operations_in_the_place_of_one_are_two_faults(port: Path) -> None:
    report = with_operations(port, {"0": "add", "1": "add", "2": "mul"})
    assert grouped(report) == [["0", "1"], ["2"]]
    measured = phrases.measure(report)
    assert measured is not None and "3 of 9 layers diverge, in 2 ways" in measured
    assert phrases.also_in(report) == "1"


def test_a_transposed_weight_and_a_large_bias_are_two_faults(port: Path) -> None:
    file = port / "graph/model.safetensors"
    weights = load_file(file)
    weights["1.dense.weight"] = weights["1.dense.weight"].T.contiguous()
    weights["2.dense.bias"] = weights["2.dense.bias"] * 100
    save_file(weights, file)
    report = Port.open(port).check()
    assert grouped(report) == [["1.dense"], ["2.dense"]]
    assert "all in the same way" not in (phrases.measure(report) or "")
