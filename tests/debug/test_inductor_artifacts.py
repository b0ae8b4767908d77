"""The tree of a training step has every graph, IR and kernel, and the kernels are those of torch.compile itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.backends.inductor import InductorBackend

pytestmark = pytest.mark.slow


class Model(nn.Module):
    """Dropout and attention: both are rewritten by passes over the joint graph, which Inductor must be let do."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.dropout = nn.Dropout(0.25)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).reshape(2, 4, 1, 24).transpose(1, 2).chunk(3, -1)
        weights = (query @ key.transpose(-1, -2) / 8**0.5).softmax(-1)
        return self.dropout(weights @ value)


def step(backend: Any) -> list[str]:
    """The code that Inductor writes for a training step."""
    from torch._inductor.utils import run_and_get_code

    torch.compiler.reset()
    torch.manual_seed(0)
    model, x = Model(), torch.randn(2, 4, 8)
    compiled = torch.compile(model, backend=backend)

    def run() -> None:
        out = compiled(x)
        out.backward(torch.ones_like(out))

    _, codes = run_and_get_code(run)
    assert all(parameter.grad is not None for parameter in model.parameters())
    return [re.sub(r"AOT ID: \['\d+_|/\S+", "", code) for code in codes]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("artifacts")


@pytest.fixture(scope="module")
def codes(folder: Path) -> Iterator[dict[str, list[str]]]:
    """Of torch.compile's own Inductor, and of ours, which leaves its artifacts in the folder."""
    with torch._inductor.config.patch(fx_graph_cache=False, force_disable_caches=False):
        yield {"plain": step("inductor"), "ours": step(InductorBackend(artifacts=folder))}
    torch.compiler.reset()


def test_the_kernels_are_those_of_torch_compile(codes: dict[str, list[str]]) -> None:
    assert len(codes["plain"]) == 2 and codes["ours"] == codes["plain"]


@pytest.mark.parametrize("stage", ["forward", "backward"])
def test_every_stage_has_its_files(codes: dict[str, list[str]], folder: Path, stage: str) -> None:
    name = f"graph_0_{stage}"
    for file in (
        f"aot_graphs/{name}.py",
        f"aot_graphs/{name}.json",
        f"statistics/{name}.json",
        f"visualizations/{name}.svg",
        f"inductor_kernels/{name}/output_code.py",
        *(f"inductor_ir/{name}/{part}.txt" for part in ("ir_pre_fusion", "ir_post_fusion")),
        *(f"inductor_ir/{name}/{part}.py" for part in ("fx_graph_runnable", "fx_graph_transformed")),
    ):
        assert (folder / file).stat().st_size > 0, file
    kernels = sorted(path.stem for path in (folder / "inductor_kernels" / name).glob("*.cpp"))
    numbers = json.loads((folder / "statistics" / f"{name}.json").read_text())["kernels"]
    assert kernels and kernels == sorted(numbers["fused"]) and numbers["languages"] == {"C++": len(kernels)}
    assert all("extern" in path.read_text() for path in (folder / "inductor_kernels" / name).glob("*.cpp"))
    assert all(operations for operations in numbers["fused"].values())


def test_the_graph_before_aot_has_its_files(codes: dict[str, list[str]], folder: Path) -> None:
    code = (folder / "fx_graphs" / "graph_0.py").read_text()
    assert "torch.nn.functional.dropout" in code or "dropout" in code
    nodes = json.loads((folder / "fx_graphs" / "graph_0.json").read_text())["nodes"]
    (softmax,) = [node for node in nodes if "softmax" in node["op"]]
    assert softmax["tensors"][0]["shape"] == [2, 1, 4, 4] and Path(__file__).name in softmax["source"]
    assert "softmax(-1)" in softmax["code"]
    assert (folder / "repros" / "graph_0.py").is_file()


def test_the_index_has_every_file(codes: dict[str, list[str]], folder: Path) -> None:
    index = json.loads((folder / "index.json").read_text())
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {one["path"] for one in index["artifacts"]} == there - {"index.json"} and index["problems"] == []
    assert {one["graph"] for one in index["artifacts"]} == {"graph_0"}
