"""The promises that every target keeps, tried on each of them with a real model."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import torchport
from torchport import Port
from torchport.errors import TorchportError, WeightsError
from torchport.events import CandidateStopped, Event
from torchport.porting.conversion import converted
from torchport.runs.folder import open_folder
from torchport.targets.registry import find_target, options_for, target_names
from torchport.trace.reading import Trace

from ..capture import models
from .conformance import SABOTAGE, model_and_inputs, spoil_weight

pytestmark = pytest.mark.slow

TARGETS = sorted(SABOTAGE)
BUILDS = {"candle": pytest.mark.builds}
Make = Callable[[], Port]


def test_every_target_is_tried_here() -> None:
    assert target_names() == TARGETS


@pytest.fixture(params=[pytest.param(name, marks=BUILDS.get(name, ())) for name in TARGETS])
def target(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def port(target: str, tmp_path: Path) -> Port:
    model, inputs = model_and_inputs()
    return torchport.port(model, inputs, target=target, out=tmp_path / "port", name="net")


def test_a_right_port_passes_and_so_does_what_was_read_from_its_folder(port: Port) -> None:
    report = port.check()
    assert report.passed and report.target == port.target.name
    opened = Port.open(port.folder)
    assert opened.files.about == port.files.about and opened.target is port.target
    again = opened.check()
    assert again.passed
    assert [(layer.name, layer.own) for layer in again.layers] == [
        (layer.name, layer.own) for layer in report.layers
    ]


def test_it_runs_on_other_inputs(port: Port) -> None:
    torch.manual_seed(3)
    report = port.check((torch.randn(7, 24), torch.rand(24)))
    assert report.passed and report.outputs is not None and report.outputs.golden_shape[0] == 7


def test_lockstep_shows_own_errors_and_chained_what_adds_up(port: Port) -> None:
    assert port.artifact.stored is not None
    spoil_weight(port.artifact.stored, "blocks.1.dense.weight")
    report = port.check(explain=False)
    assert report.status == "fail" and report.first_divergence is not None
    assert report.first_divergence.layer == "blocks.1.dense"
    assert [layer.name for layer in report.layers if not layer.passed] == ["blocks.1.dense"]
    wrong = {layer.name for layer in report.layers if layer.chained and layer.chained.max_abs > 1e-3}
    assert {"blocks.1.dense", "blocks.1", "blocks.0#1", "head"} <= wrong and "blocks.0" not in wrong
    with Trace(port.files.captured("trace")) as golden, Trace(port.files.record("lockstep")) as lockstep:
        torch.testing.assert_close(lockstep.get("head"), golden.get("head"))


def test_what_an_artifact_gives_in_the_end_is_recorded_and_compared(port: Port) -> None:
    report = port.check()
    assert report.program is not None and report.program.passed and report.program.source is not None
    assert not any("in the end" in note for note in report.notes)
    with Trace(port.files.captured("trace")) as golden, Trace(port.files.record("lockstep")) as lockstep:
        assert lockstep.returned is not None and lockstep.returned.number == 2
        assert lockstep.events is not None and lockstep.events[0] == ("enter", "Net")
        torch.testing.assert_close(lockstep.get("Net>0"), golden.get("Net"), rtol=0, atol=0)
        torch.testing.assert_close(lockstep.get("Net>1"), golden.get("Net:1"), rtol=0, atol=0)


def test_a_wrong_weight_is_the_cause_that_is_found(port: Port) -> None:
    assert port.artifact.stored is not None
    spoil_weight(port.artifact.stored, "head.weight")
    found = port.check().first_divergence
    assert found is not None and found.layer == "head" and found.operation is not None
    assert found.operation.op == "aten.linear.default"
    assert [one.text for one in found.suggestions] == ["head.weight is not the tensor that was recorded"]


def test_an_edit_is_blamed_on_its_layer_operation_and_cause(port: Port) -> None:
    SABOTAGE[port.target.name].gelu_as_tanh(port.artifact.folder)
    found = port.check().first_divergence
    assert found is not None and (found.layer, found.kind) == ("blocks.0", "own")
    assert found.operation is not None and found.operation.op == "aten.gelu.default"
    assert found.suggestions[0].kind == "gelu_tanh" and found.edits
    assert found.snippet is not None
    snippet = Path(found.snippet)
    assert {path.name for path in snippet.iterdir()} == {"tensors.safetensors", "plot.py", "rerun.py", "port"}
    slice_ = Port.open(snippet / "port")
    assert slice_.target is port.target
    rerun = subprocess.run([sys.executable, str(snippet / "rerun.py"), "--json"], capture_output=True)
    assert rerun.returncode == 1 and json.loads(rerun.stdout)["first_divergence"]["layer"] == "Block"


def test_a_failure_is_reduced_to_one_operation_that_fails_in_a_process_of_its_own(port: Port) -> None:
    SABOTAGE[port.target.name].gelu_as_tanh(port.artifact.folder)
    found = port.minify()
    assert found.operations == ("aten.gelu.default",) and found.output.endswith("they differ")
    again = subprocess.run([sys.executable, found.script], capture_output=True, text=True)
    assert again.returncode == 1 and again.stdout.rstrip().endswith("they differ")


def test_a_port_that_crashes_in_the_middle_never_passes_and_keeps_what_it_computed(port: Port) -> None:
    SABOTAGE[port.target.name].crash_at_the_head(port.artifact.folder)
    events: list[Event] = []
    port.watch = events.append
    report = port.check(explain=False)
    assert report.status == "fail" and report.stopped
    assert any(isinstance(event, CandidateStopped) for event in events)
    assert report.first_divergence is not None and report.first_divergence.layer in ("head", "Net")
    passed = {layer.name for layer in report.layers if layer.passed}
    assert {"blocks.0", "blocks.1", "blocks.0#1"} <= passed and not passed & {"head", "Net"}


def test_a_part_that_nobody_knows_is_listed_and_nothing_runs(target: str, tmp_path: Path) -> None:
    port = torchport.port(models.Gated(), torch.randn(2, 4), target=target, out=tmp_path / "port")
    report = port.check()
    assert report.status == "unsupported" and not (port.folder / "run").exists()
    assert {todo.layer for todo in report.todos} == {"blocks.0.gate", "blocks.1.gate"}
    assert all(todo.source and "decides by the value of a tensor" in todo.reason for todo in report.todos)
    again = Port.open(port.folder).check()
    assert again.status == "unsupported" and again.todos == report.todos


def test_a_model_without_values_is_converted_and_not_proven(target: str, tmp_path: Path) -> None:
    with torch.device("meta"):
        model = nn.Linear(4, 4)
    port = torchport.port(model, torch.randn(2, 4, device="meta"), target=target, out=tmp_path / "port")
    assert port.artifact.folder.is_dir()
    with pytest.raises(TorchportError, match="TP0702"):
        port.check()
    with pytest.raises(TorchportError, match="TP0702"):
        Port.open(port.folder).check()


def test_a_conversion_that_fails_leaves_what_was_there(target: str, tmp_path: Path) -> None:
    model, inputs = model_and_inputs()
    capture = torchport.record(model, inputs, name="net")
    chosen = find_target(target)
    weights = {name: tensor for name, tensor in capture.weights.items() if name != "head.weight"}
    with pytest.raises(WeightsError, match="head.weight"):
        converted(capture, chosen, tmp_path / "port", options_for(chosen, {}), weights=weights)
    assert not (tmp_path / "port" / "run.json").exists()
    assert not list((tmp_path / "port").rglob("*.tmp"))
    torchport.port(model, inputs, target=target, out=tmp_path / "port", name="net")
    before = {path: path.read_bytes() for path in (tmp_path / "port").rglob("*") if path.is_file()}
    with pytest.raises(WeightsError, match="head.weight"):
        converted(capture, chosen, tmp_path / "port", options_for(chosen, {}), weights=weights)
    after = {path: path.read_bytes() for path in (tmp_path / "port").rglob("*") if path.is_file()}
    assert after == before, "the earlier port is there, whole"


def test_options_are_the_targets_own_and_are_kept(port: Port) -> None:
    kept = open_folder(port.folder).about.options
    assert kept == options_for(port.target, {}).model_dump()
    with pytest.raises(TorchportError, match="TP0801"):
        options_for(port.target, {"no_such_option": 1})


def test_requirements_are_findings_with_a_way_to_mend_them(target: str) -> None:
    for look in find_target(target).requirements:
        finding = look()
        assert finding.status == "ok" or finding.fix
