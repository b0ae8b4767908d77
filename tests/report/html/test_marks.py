"""The page shows the line of the port that is at fault: marked, alone, and in sight without scrolling by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchport
from torchport import Port
from torchport.report.html import render
from torchport.runs.run import Run

from ...browser import Opener


class Attention(nn.Module):
    """Two operations of a kind, one of them a method in Rust and the other a sign, and lines enough to scroll."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(-1, -2) - x.mean((-1, -2), keepdim=True)
        mixed = torch.softmax(scores.clamp(min=-4), -1) @ self.value(x)
        mixed = mixed.sigmoid().exp().sqrt().tanh() * torch.relu(mixed) / (1 + mixed.abs())
        mixed = torch.cat([mixed.cos(), mixed.sin()], -1)[..., 3:19].cumsum(1).flip(-1)
        return self.out(mixed) - x


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The capture in two targets: one that runs here, and one that is Rust."""
    place = tmp_path_factory.mktemp("marks")
    torch.manual_seed(0)
    model = nn.Sequential(Attention(), Attention()).eval()
    for target in ("torch", "candle"):
        torchport.port(model, torch.randn(2, 5, 16), target=target, out=place / target, name="net")
    return place


def page(folder: Path, place: int, instead: str) -> str:
    """The page of the port in Rust, if the second block computes something else than its subtraction number `place`."""
    file = folder / "torch/graph/graph.json"
    was = file.read_text()
    graph: dict[str, Any] = json.loads(was)
    nodes = next(module["nodes"] for module in graph["modules"] if module["key"] == "1")
    [node for node in nodes if node["op"] == "aten.sub.Tensor"][place]["op"] = instead
    file.write_text(json.dumps(graph))
    report = Port.open(folder / "torch").check()
    file.write_text(was)
    assert report.first_divergence is not None and report.first_divergence.operation is not None
    return render(Run.of(report.model_copy(update={"target": "candle"}), folder / "candle"))


@pytest.mark.parametrize(("place", "written"), [(0, "broadcast_sub("), (1, " - ")])
def test_the_line_of_rust_that_is_at_fault_is_marked_and_in_sight(
    folder: Path, open_page: Opener, place: int, written: str
) -> None:
    tab = open_page(page(folder, place, "aten.add.Tensor"), viewport={"width": 1280, "height": 500})
    tab.wait_for_chart()
    source = tab.page.locator("#source .sides > div").nth(1).locator("pre")
    marked = source.locator(".row.marked")
    assert marked.count() == 1 and written in marked.inner_text(), source.inner_text()
    shown, line = source.bounding_box(), marked.bounding_box()
    assert shown is not None and line is not None
    assert shown["y"] <= line["y"] and line["y"] + line["height"] <= shown["y"] + shown["height"]


def test_the_line_that_was_edited_is_marked_wherever_the_operation_is(
    folder: Path, open_page: Opener
) -> None:
    file = folder / "candle/rust/src/model.rs"
    was = file.read_text()
    at = was.rindex(" - ")
    file.write_text(f"{was[:at]} + {was[at + 3 :]}")
    try:
        tab = open_page(page(folder, 1, "aten.add.Tensor"))
    finally:
        file.write_text(was)
    tab.wait_for_chart()
    marked = tab.page.locator("#source .sides > div").nth(1).locator(".row.marked")
    assert marked.count() == 1 and " + " in marked.inner_text()
