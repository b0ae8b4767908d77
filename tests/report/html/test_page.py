"""What goes into the page: short columns, shared drawings and sources, and text that cannot break out of its place."""

from __future__ import annotations

import base64
import json
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.bench_html import make_graph
from torchport.capture.graph import Graph, Input, Module, Ref, Sym, TensorMeta
from torchport.capture.plan import make_plan
from torchport.errors import UsageError
from torchport.pages import as_script
from torchport.parity.picture import draw
from torchport.parity.result import Layer, Operation, Suggestion
from torchport.report.html import chart, columns, drawing, every, render, sources
from torchport.report.html.page import link
from torchport.runs.run import Run
from torchport.trace.writing import write_tensors

from ..sample import failing, layer, passing, unsupported

META = TensorMeta((2, 3), "float32")


def layers_of(graph: Graph) -> list[Layer]:
    calls = make_plan(graph).calls.values()
    return [
        Layer(name=c.name, type=c.type, own=None, chained=None, passed=True, parent=c.parent) for c in calls
    ]


def test_data_cannot_end_its_script() -> None:
    hostile = {"</script><!--": "\u2028 & \ud800"}
    text = as_script(hostile)
    assert not {"<", ">", "&", "\u2028"} & set(text)
    assert json.loads(text) == hostile


def test_links_escape_what_means_something_in_an_address() -> None:
    assert link("a.0#1/b&c=d é") == "#layer=a.0%231%2Fb%26c%3Dd%20%C3%A9"


def test_pictures_are_kept_as_torch_would_round_them_to_bfloat16() -> None:
    values = torch.cat(
        [torch.randn(500) * 10.0 ** torch.randint(-30, 30, (500,)), torch.tensor([0.0, float("inf")])]
    )
    expected = values.to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    assert np.array_equal(columns.bfloat16(values.numpy()), expected)


def test_every_picture_is_a_whole_number_of_letters(run: Run) -> None:
    pictures = columns.layers(run.report.layers[:7], columns.Texts())["pictures"]
    one = len(pictures["values"]) // 7
    first = base64.b64decode(pictures["values"][:one])
    expected = run.report.layers[0].picture
    assert expected is not None
    raw = np.frombuffer(first[: 2 * (64 + 48)], dtype="<u2").astype(np.uint32) << 16
    cells = raw.view(np.float32)[:64]
    assert np.allclose(cells, np.ravel(expected.errors), rtol=2**-8, atol=0)


@pytest.mark.parametrize(
    "value, kept",
    [(None, None), (float("nan"), "NaN"), (float("-inf"), "-Infinity"), (1.23456e-7, 1.235e-7), (3.0, 3)],
)
def test_numbers_are_short_and_never_lost(value: float | None, kept: object) -> None:
    assert columns.short(value) == kept


def test_a_layer_is_never_inside_itself() -> None:
    one, two = (layer.model_copy(update={"parent": "b"}) for layer in (layer("a", 0.0), layer("b", 0.0)))
    assert columns.layers([one, two], columns.Texts())["parent"] == [1, None]


def test_what_was_not_judged_is_not_told_as_zero() -> None:
    kept = columns.layers(passing().layers, columns.Texts())
    assert kept["own"]["ratio"][2] is None and kept["own"]["there"][2] == 0
    assert "nan_golden" not in kept["own"]


def test_modules_with_the_same_graph_share_a_drawing() -> None:
    graph = make_graph(20)
    texts = columns.Texts()
    made = drawing.drawings(graph, layers_of(graph), texts)
    assert None not in made["of"]
    assert len(made["drawings"]) <= 10 < 20


def test_boxes_of_a_drawing_do_not_overlap_and_edges_go_down() -> None:
    graph = make_graph(3)
    made = drawing.drawings(graph, layers_of(graph), columns.Texts())
    for one in made["drawings"]:
        assert {start for start, *_ in one["edges"]} <= set(range(len(one["kind"])))
        for start, end, *_ in one["edges"]:
            assert one["row"][start] < one["row"][end]
        boxes = sorted(zip(one["row"], one["x"], one["width"], strict=True))
        for (row, x, width), (next_row, next_x, next_width) in pairwise(boxes):
            assert row != next_row or x + width / 2 <= next_x - next_width / 2


def test_a_module_with_too_many_boxes_is_not_drawn_and_says_so() -> None:
    graph = make_graph(drawing.MOST_BOXES + 1)
    texts = columns.Texts()
    made = drawing.drawings(graph, layers_of(graph), texts)
    root = made["drawings"][made["of"][-1]]
    assert "not drawn" in root["skipped"] and "row" not in root
    assert len(root["operations"]) == drawing.MOST_BOXES + 1


def test_a_report_of_other_calls_than_the_graph_has_no_drawing() -> None:
    graph = make_graph(1)
    layers = [layer for layer in layers_of(graph) if not layer.name.endswith("fc1")]
    made = drawing.drawings(graph, layers, columns.Texts())
    drawn = dict(zip([layer.name for layer in layers], made["of"], strict=True))
    assert drawn["blocks.0.mlp"] is None and drawn["blocks.0.attention"] is not None


def test_sizes_are_written_as_a_reader_would() -> None:
    shape = (Sym("batch"), Sym(("mul", 4, ("add", "seq", 1))), 64)
    assert drawing.describe(TensorMeta(shape, "float32")) == "float32 [batch, 4·(seq + 1), 64]"


def test_lines_of_python_are_kept_once(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("".join(f"line_{number} = '<{number}>'\n" for number in range(1, 101)))
    places = [f"{file}:{line}" for line in (10, 10, 12, 80)]
    kept = sources.excerpts(None, [*places, None, "nonsense", f"{file}:9999"])["files"]
    assert [(start, len(lines)) for start, lines in kept[str(file)]] == [(5, 13), (75, 11)]
    assert "&lt;10&gt;" in kept[str(file)][0][1][5] and "<10>" not in kept[str(file)][0][1][5]


def test_what_is_to_do_is_shown_with_its_lines(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("import torch\n\n\ndef f(x):\n    return torch.fft.fft(x)\n")
    todo = unsupported().todos[0].model_copy(update={"source": f"{file}:5"})
    html = render(Run.of(unsupported().model_copy(update={"todos": (todo, todo)}), tmp_path))
    marked = re.findall(r'<span class="row marked">(.*?)\n</span>', html)
    assert len(marked) == 1 and "fft" in marked[0]


def test_only_python_is_shown_however_a_report_names_it(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("secret\n")
    assert sources.excerpts(None, [f"{tmp_path}/key.pem:1", f"{tmp_path}:1", "/dev/zero:1"])["files"] == {}


def test_a_forward_is_shown_whole(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "class A:\n    def forward(self, x):\n        y = x\n        return y\n\n    def other(self):\n        pass\n"
    )
    module = Module("", "net.A", (Input("x", META),), (), (Ref("x"),), source=f"{file}:2")
    kept = sources.excerpts(Graph("A", {"": module}, {}, (), ("y",)), [])
    assert kept["forwards"] == {f"{file}:2": [2, 4]}


def with_traces(folder: Path, golden: torch.Tensor, candidate: torch.Tensor) -> Run:
    """A failing run whose culprit, `head`, has these values in the traces."""
    report = failing(0.5)
    head = report.layers[1]
    assert head.own is not None
    picture = draw(golden, candidate, 1.0, 0.1)
    layers = (report.layers[0], head.model_copy(update={"picture": picture}), *report.layers[2:])
    run = Run.of(report.model_copy(update={"layers": layers}), folder)
    for file, value in ((run.files.captured("trace"), golden), (run.files.record("lockstep"), candidate)):
        file.parent.mkdir(parents=True)
        write_tensors(file, {head.own.key: value}, {"schema": "1"})
    return run


def test_every_element_that_fails_is_in_the_page_as_a_share_of_what_is_allowed(tmp_path: Path) -> None:
    candidate = torch.zeros(2, 3, 4)
    candidate[0, 1:], candidate[1, 2, 3] = 0.2, torch.nan
    (matrix,) = every.elements(with_traces(tmp_path, torch.zeros(2, 3, 4), candidate), None).values()
    assert (matrix["down"], matrix["across"], matrix["step"]) == (6, 4, (1, 1))
    assert matrix["axes"] == ["axis 0", "axis 1", "axis 2"]
    levels = np.frombuffer(base64.b64decode(matrix["shares"]), np.uint8).reshape(6, 4)
    assert (levels[0] == every.EXACT).all() and (levels[3:5] == every.EXACT).all()
    assert levels[5, 3] == every.NOT_FINITE
    share = every.LOWEST * 10 ** ((int(levels[1, 0]) - 1) * every.DECADES / 253)
    assert share == pytest.approx(2.0, rel=0.1)


def test_a_large_tensor_is_shown_by_the_worst_of_some_elements(tmp_path: Path) -> None:
    candidate = torch.zeros(3 * every.MOST_DOWN, 2 * every.MOST_ACROSS)
    candidate[7, 11] = 1.0
    (matrix,) = every.elements(with_traces(tmp_path, torch.zeros_like(candidate), candidate), None).values()
    assert matrix["step"] == (3, 2)
    levels = np.frombuffer(base64.b64decode(matrix["shares"]), np.uint8).reshape(every.MOST_DOWN, -1)
    assert np.argwhere(levels).tolist() == [[2, 5]]


def test_without_its_traces_a_run_is_shown_all_the_same(tmp_path: Path) -> None:
    run = with_traces(tmp_path, torch.zeros(2, 3), torch.ones(2, 3))
    run.files.record("lockstep").write_bytes(b"cut off")
    assert every.elements(run, None) == {} and "FAIL" in render(run)


def test_blocks_are_named_where_they_begin_and_only_so_many_as_can_be_read() -> None:
    names = ["embed", "layers.0.fc", "layers.0", "layers.1.fc#1", "layers.1", "head", "Net"]
    assert chart.block_names(names) == {0: "embed", 1: "layers.0", 3: "layers.1", 5: "head", 6: "Net"}
    assert len(chart.block_names([f"layers.{i}" for i in range(5000)])) <= chart.MOST_NAMES


def test_a_box_says_its_name_once_and_its_edges_carry_shapes() -> None:
    made = drawing.drawings(make_graph(1), layers_of(make_graph(1)), columns.Texts())["drawings"]
    boxes = [box for one in made for box in zip(one["name"], one["label"], one["shape"], strict=True)]
    assert ("add_1", "", "[4, 16, 64]") in boxes
    assert not [box for box in boxes if box[1] and box[0] in (box[1], f"{box[1]}_1")]


def test_panels_have_lanes_for_zero_and_for_nan_only_where_needed() -> None:
    assert chart.panels(failing().layers)["mse"]["over"] is not None
    assert chart.panels(passing().layers)["mse"]["over"] is None
    assert chart.panels(passing().layers)["mse"]["zero"] is not None


def test_notes_and_what_a_port_said_when_it_stopped_are_on_the_page(run: Run) -> None:
    told = {"notes": ("it writes to <calls>",), "stopped": "Error: index 16 is out of range"}
    page = render(Run.of(run.report.model_copy(update=told), run.folder))
    assert "it writes to &lt;calls&gt;" in page and "Error: index 16 is out of range" in page


def test_culprit_has_its_operation_suggestions_edits_and_snippet(tmp_path: Path) -> None:
    report = failing(0.5)
    assert report.first_divergence is not None
    operation = Operation(
        node="add_2", op="aten.add.Tensor", source="net.py:77", reason="the first wrong one", metrics=None
    )
    culprit = report.first_divergence.model_copy(
        update={
            "operation": operation,
            "suggestions": (Suggestion(kind="eps", text="eps 1e-5 for 1e-12", explains=0.9987),),
            "edits": ("@@ -1 +1 @@\n-old\n+new",),
            "snippet": "out/snippets/head",
        }
    )
    html = render(Run.of(report.model_copy(update={"first_divergence": culprit}), tmp_path))
    for shown in (
        "aten.add.Tensor (add_2)",
        "net.py:77",
        "eps 1e-5 for 1e-12",
        "99.8 %",
        "+new",
        "out/snippets/head",
    ):
        assert shown in html


@pytest.mark.parametrize("package", ["altair", "grandalf", "jinja2", "pygments", "vl_convert"])
def test_a_missing_package_is_named_with_the_way_to_get_it(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match="TP0803") as caught:
        render(Run.of(passing(), tmp_path))
    assert "pip install 'torchport[html]'" in (caught.value.fix or "")


def test_notebook_summary_has_what_would_explain_the_error() -> None:
    report = failing(0.5)
    assert report.first_divergence is not None
    suggestion = Suggestion(kind="eps", text="<eps>", explains=0.9987)
    culprit = report.first_divergence.model_copy(update={"suggestions": (suggestion,)})
    html = report.model_copy(update={"first_divergence": culprit})._repr_html_()
    assert "&lt;eps&gt; (explains 99.8 % of the error)" in html and "<style>" in html
