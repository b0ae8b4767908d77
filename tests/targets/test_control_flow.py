"""Models with control flow on the torch target: proven, blamed and reported."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchport
from torchport import Port
from torchport.errors import ReportError
from torchport.report import formats
from torchport.runs.run import Run

from ..capture import control_flow_models as models
from .conformance import spoil_weight

pytestmark = pytest.mark.slow

ROWS = torch.rand(5, 4, generator=torch.Generator().manual_seed(2))
INNER: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "inner.cond": (models.Branch, -9 * ROWS),
    "inner.while_loop": (models.Counted, ROWS),
    "inner.scan": (models.Running, ROWS),
    "inner.map": (models.Nested, torch.stack([ROWS, -ROWS, ROWS - 0.5])),
}
every_kind = pytest.mark.parametrize("layer", INNER)


def ported(layer: str, out: Path, target: str = "torch") -> Port:
    make, x = INNER[layer]
    model = models.seeded(lambda: models.Net(make()))
    return torchport.port(model, (x,), target=target, out=out, name="net")


def edit(port: Port, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes every node of the graph that the torch target runs."""
    path = port.artifact.folder / "graph.json"
    data = json.loads(path.read_text())
    for module in data["modules"]:
        for node in module["nodes"]:
            change(node)
    path.write_text(json.dumps(data))


def sigmoid_for_tanh(node: dict[str, Any]) -> None:
    if node["op"] == "aten.tanh.default":
        node["op"] = "aten.sigmoid.default"


@every_kind
def test_the_torch_target_proves_it_now_and_when_opened_again(layer: str, tmp_path: Path) -> None:
    port = ported(layer, tmp_path / "port")
    assert not port.artifact.todos
    for one in (port, Port.open(port.folder)):
        report = one.check()
        assert report.passed and not report.todos
        assert layer in [judged.name for judged in report.layers if judged.own is not None]


@every_kind
def test_other_inputs_of_another_length_are_proven_too(layer: str, tmp_path: Path) -> None:
    port = ported(layer, tmp_path / "port")
    _, x = INNER[layer]
    report = port.check((-x.repeat(2, *[1] * (x.ndim - 1)),))
    assert report.passed and report.outputs is not None and report.outputs.golden_shape[0] == 2 * len(x)


@every_kind
def test_a_fault_inside_a_body_is_blamed_on_the_control_flow(layer: str, tmp_path: Path) -> None:
    port = ported(layer, tmp_path / "port")
    edit(port, sigmoid_for_tanh)
    report = port.check()
    found = report.first_divergence
    assert report.status == "fail" and found is not None and (found.layer, found.kind) == (layer, "own")
    assert found.operation is not None and found.operation.op == f"torchport.{layer.split('.')[1]}.default"
    assert found.source is not None and found.source.startswith(f"{models.__file__}:") and found.edits
    assert [one.name for one in report.layers if not one.passed] == [layer]


def test_a_wrong_weight_that_only_a_body_reads_is_the_cause_that_is_found(tmp_path: Path) -> None:
    port = ported("inner.while_loop", tmp_path / "port")
    assert port.artifact.stored is not None
    spoil_weight(port.artifact.stored, "inner.inner.dense.weight")
    found = port.check().first_divergence
    assert found is not None and found.layer == "inner.while_loop"
    assert [one.text for one in found.suggestions] == [
        "inner.inner.dense.weight is not the tensor that was recorded"
    ]


def test_the_slice_of_a_culprit_runs_by_itself(tmp_path: Path) -> None:
    port = ported("inner.scan", tmp_path / "port")
    edit(port, sigmoid_for_tanh)
    found = port.check().first_divergence
    assert found is not None and found.snippet is not None
    report = Port.open(Path(found.snippet) / "port").check(explain=False)
    assert report.status == "fail" and report.first_divergence is not None


def test_control_flow_is_not_reduced_and_says_why(tmp_path: Path) -> None:
    port = ported("inner.while_loop", tmp_path / "port")
    edit(port, sigmoid_for_tanh)
    with pytest.raises(ReportError, match="TP0344.*inner.while_loop runs graphs of its own"):
        port.minify()


@pytest.mark.parametrize(("sign", "idle"), [(1, "false"), (-1, "true")])
def test_what_did_not_run_is_not_called_proven(sign: int, idle: str, tmp_path: Path) -> None:
    port = ported("inner.cond", tmp_path / "port")
    report = port.check((sign * INNER["inner.cond"][1],))
    (flow,) = report.control_flow
    assert [role for role, body in flow.bodies.items() if not body.ran] == [idle]
    assert any(f"inner.cond.{idle} did not run on these inputs" in note for note in report.notes)


def test_a_fault_in_a_branch_is_found_on_inputs_that_take_it(tmp_path: Path) -> None:
    port = ported("inner.cond", tmp_path / "port")
    edit(port, sigmoid_for_tanh)
    _, x = INNER["inner.cond"]
    assert port.check((-x,)).passed and not port.check((x,)).passed


def test_reports_show_the_bodies(tmp_path: Path) -> None:
    port = ported("inner.map", tmp_path / "port")
    report = port.check()
    (flow,) = report.control_flow
    assert (flow.layer, flow.type) == ("inner.map", "map") and "body.while_loop.body.cond.true" in flow.bodies
    assert flow.bodies["body.while_loop.condition"].operations == ("aten.lt.Scalar",)
    again = json.loads(report.to_json())["control_flow"]
    assert again[0]["bodies"]["body.while_loop.condition"] == {"operations": ["aten.lt.Scalar"], "ran": True}
    run = Run.open(port.folder)
    text, page = (formats.renderer(name)(run) for name in ("text", "html"))
    assert "body.while_loop.condition (1 operation)" in text
    assert "map.body/while_loop.condition/lt" in page


class Decides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = models.Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        if y.sum() > 0:
            return y * 2
        return y - 1


def test_the_report_says_what_export_cannot_follow_and_what_to_write(tmp_path: Path) -> None:
    port = torchport.port(
        models.seeded(Decides), (ROWS,), target="torch", out=tmp_path / "port", name="decides"
    )
    report = port.check(explain=False)
    assert report.status == "unsupported" and len(report.todos) == 1
    (note,) = [note for note in report.notes if "decides by the value of a tensor" in note]
    assert f"{__file__}:" in note and "`if y.sum() > 0:`" in note
    assert note.endswith("    return torch.cond(y.sum() > 0, if_true, if_false, (y,))")
