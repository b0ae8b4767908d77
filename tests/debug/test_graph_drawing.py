"""Pictures of graphs: every operation has a box, text is escaped, and size or a missing library stop nothing."""

from __future__ import annotations

import sys
import time
from xml.etree import ElementTree

import pytest
import torch

from torchport.debug.drawing import MOST_BOXES, draw
from torchport.debug.nodes import GraphNode, TensorFacts
from torchport.debug.sketching import anchors, picture
from torchport.report.html.drawing import Box, Sketch, layout

from ..browser import Opener, chromium, open_page

__all__ = ["chromium", "open_page"]

TENSOR = (TensorFacts((4, 8), torch.float32, (8, 1), "cpu", 128),)
SVG = "{http://www.w3.org/2000/svg}"


def call(name: str, *inputs: str, op: str = "aten.add.Tensor", module: str = "") -> GraphNode:
    return GraphNode(name, op, "call_function", inputs, TENSOR, module, "Linear" if module else "", None)


def given(name: str) -> GraphNode:
    return GraphNode(name, "placeholder", "placeholder", (), TENSOR, "", "", None)


def output(*inputs: str) -> GraphNode:
    return GraphNode("output", "output", "output", inputs, (), "", "", None)


def chain(length: int) -> list[GraphNode]:
    """A graph like a model: a chain with weights, and a branch that is needed late."""
    nodes = [given("x"), given("late"), call("early", "late"), call("op_0", "x")]
    for number in range(1, length):
        nodes.append(given(f"w_{number}"))
        skip = f"op_{max(0, number - 3)}"
        nodes.append(
            call(f"op_{number}", f"op_{number - 1}", f"w_{number}", skip, module=f"layer.{number // 8}")
        )
    return [*nodes, call("end", f"op_{length - 1}", "early"), output("end")]


def titles(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [str(title.text).partition(" ")[0] for title in root.iter(f"{SVG}title")]


def test_every_operation_has_a_box_and_weights_are_lines() -> None:
    nodes = chain(12)
    svg = draw(nodes, "graph_0")
    operations = {node.name for node in nodes if node.kind == "call_function"}
    assert set(titles(svg)) == operations | {"x", "late"}
    assert "← w_3 float32[4, 8]" in svg and "layer.1" in svg


def test_text_cannot_break_out() -> None:
    bad = "</text><script>alert(1)</script>&\x00\x1b\ud800"
    svg = draw([given("x"), call(bad, "x", op=bad, module=bad), output(bad)], bad, {bad})
    ElementTree.fromstring(svg)
    svg.encode()
    assert "<script>" not in svg


def test_a_violation_is_red_and_an_output_is_thick() -> None:
    root = ElementTree.fromstring(draw([given("x"), call("a", "x"), call("b", "a"), output("b")], "g", {"a"}))
    looks = [str(rect.get("class")) for group in root.iter(f"{SVG}g") for rect in group.findall(f"{SVG}rect")]
    assert sum("bad" in look for look in looks) == 1 and sum("output" in look for look in looks) == 1


def test_what_is_needed_late_is_drawn_late() -> None:
    content = picture(chain(40))
    names = [box.name for box in content.boxes]
    boxes = tuple(Box("op", box.name, "") for box in content.boxes)
    rows = layout(Sketch(boxes, (*content.edges, *anchors(content))))["row"]
    row = dict(zip(names, rows, strict=True))
    assert row["early"] == row["end"] - 1 and row["late"] == row["end"] - 2
    assert row["op_0"] == row["x"] + 1 == 1


@pytest.mark.parametrize("length", [1, 500])
def test_five_hundred_operations_take_less_than_seconds(length: int) -> None:
    start = time.process_time()
    svg = draw(chain(length), "graph_0")
    assert time.process_time() - start < 3
    assert len(titles(svg)) == length + 4 and "order of computation" not in svg


def test_a_graph_too_large_for_layers_is_a_column() -> None:
    svg = draw(chain(MOST_BOXES + 10), "graph_0")
    assert "drawn in the order of computation" in svg and len(titles(svg)) == MOST_BOXES + 14


def test_without_the_layout_library_there_is_a_column_and_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grandalf.graphs", None)
    svg = draw(chain(5), "graph_0")
    assert "torchport[html]" in svg and len(titles(svg)) == 9


def test_empty_graphs_are_drawn() -> None:
    ElementTree.fromstring(draw([], "nothing"))
    ElementTree.fromstring(draw([given("x"), output("x")], "only an input"))


def test_no_text_sticks_out_of_its_box(open_page: Opener) -> None:
    long = "a_name_that_is_much_too_long_for_any_box_of_the_picture"
    nodes = [*chain(6)[:-1], given(long), call(f"{long}_read", "end", long, op=f"aten.{long}"), output("end")]
    page = open_page(f"<!doctype html><body>{draw(nodes, 'graph_0')}</body>").page
    out = page.evaluate(
        """() => [...document.querySelectorAll("svg g g")].filter((group) => {
            const box = group.querySelector("rect").getBoundingClientRect();
            return [...group.querySelectorAll("text")].some((one) => {
                const text = one.getBoundingClientRect();
                return text.right > box.right || text.bottom > box.bottom || text.left < box.left;
            });
        }).length"""
    )
    assert out == 0
