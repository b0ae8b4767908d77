"""What the marble target promises beyond what every target does: two ways to evaluate, and edits of groups."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchport
from torchport import Port
from torchport.errors import CaptureError, ManifestError, UsageError
from torchport.targets.marble.target import MarbleArtifact, MarbleOptions, compute
from torchport.targets.registry import find_target, options_for
from torchport.trace.reading import Trace

from ..conformance import SABOTAGE, model_and_inputs
from .copies import copy_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Port:
    model, inputs = model_and_inputs()
    return torchport.port(model, inputs, target="marble", out=tmp_path_factory.mktemp("port"), name="net")


@pytest.fixture
def port(made: Port, tmp_path: Path) -> Port:
    """A copy of the port, which a test may change."""
    return copy_of(made, tmp_path)


def evaluated(port: Port, **options: Any) -> Port:
    """The port, evaluated by other options than those that it was made with."""
    assert isinstance(port.artifact, MarbleArtifact)
    port.artifact.keep(port.artifact.facts.model_copy(update=options))
    return port


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes every assembly of the graph."""
    path = folder / "neurons.json"
    data = json.loads(path.read_text())
    for step in data["steps"]:
        if "assembly" in step:
            change(step)
    path.write_text(json.dumps(data, indent=1))


def coarser_norm(assembly: dict[str, Any]) -> None:
    """The neurons that make a deviation add another epsilon."""
    for group in assembly["groups"]:
        if group["options"].get("bias") == 1e-5:
            group["options"]["bias"] = 1e-3


@pytest.mark.parametrize("options", [{"by": "messages"}, {"opened": True}], ids=["messages", "opened"])
def test_it_is_proven_on_its_inputs_and_on_those_of_another_length(
    options: dict[str, Any], port: Port
) -> None:
    assert evaluated(port, **options).check().passed
    torch.manual_seed(3)
    assert port.check((torch.randn(7, 24), torch.rand(24))).passed


def test_by_messages_an_edit_is_explained_in_a_slice_that_runs_by_messages_too(port: Port) -> None:
    evaluated(port, by="messages")
    SABOTAGE["marble"].gelu_as_tanh(port.artifact.folder)
    found = port.check().first_divergence
    assert found is not None and found.layer == "blocks.0" and found.suggestions[0].kind == "gelu_tanh"
    assert found.snippet is not None
    facts = json.loads((Path(found.snippet) / "port" / "marble" / "facts.json").read_text())
    assert facts["by"] == "messages"


def test_an_edit_of_one_group_inside_a_norm_is_run_and_blamed_on_the_norm(port: Port) -> None:
    edit(port.artifact.folder, coarser_norm)
    found = port.check().first_divergence
    assert found is not None and found.layer == "blocks.0.norm" and found.edits
    assert found.operation is not None and found.operation.op == "aten.layer_norm.default"


def test_an_edit_holds_for_inputs_of_another_length(port: Port) -> None:
    inputs = (torch.randn(7, 24), torch.rand(24))
    before = compute(port.artifact.folder, inputs)
    edit(port.artifact.folder, coarser_norm)
    after = compute(port.artifact.folder, inputs)
    assert 1e-5 < (before[0] - after[0]).abs().max() < 1e-1


def test_an_operation_that_is_edited_without_its_groups_is_refused(port: Port) -> None:

    def other(assembly: dict[str, Any]) -> None:
        if assembly["operation"] == "aten.gelu.default":
            assembly["operation"] = "aten.silu.default"

    edit(port.artifact.folder, other)
    with pytest.raises(UsageError, match="TP0804.*its groups were not"):
        compute(port.artifact.folder, model_and_inputs()[1])


def test_a_file_that_is_no_neuron_graph_is_refused(port: Port) -> None:
    structure = port.artifact.folder / "neurons.json"
    structure.write_text(structure.read_text()[:-100])
    with pytest.raises(ManifestError, match="TP0302"):
        port.check()


def test_inputs_of_another_kind_are_refused(made: Port) -> None:
    folder = made.artifact.folder
    for inputs in [
        (torch.randn(4, 24),),
        (torch.randn(4, 23), torch.rand(24)),
        (torch.randn(24), torch.rand(24)),
        (torch.randn(4, 24).double(), torch.rand(24)),
    ]:
        with pytest.raises(CaptureError, match="TP0208"):
            compute(folder, inputs)


def test_a_graph_whose_shapes_do_not_fit_is_converted_and_stops_in_the_layer_that_is_wrong(
    tmp_path: Path,
) -> None:
    model, inputs = model_and_inputs()
    capture = torchport.record(model, inputs, name="net")
    modules = dict(capture.graph.modules)
    (node,) = modules["head"].nodes
    turned = replace(node, op="aten.mm.default", args=node.args[:1] * 2)
    modules["head"] = replace(modules["head"], nodes=(turned,))
    target = find_target("marble")
    wrong = target.convert(
        replace(capture.graph, modules=modules), capture.weights, tmp_path / "marble", options_for(target, {})
    )
    assert not wrong.todos
    trace = capture.save(tmp_path)["trace"]
    stopped = wrong.run(trace, "chained", tmp_path / "run.safetensors")
    assert stopped is not None and "mat1 and mat2 shapes cannot be multiplied" in stopped.message
    with Trace(tmp_path / "run.safetensors") as run:
        assert run.has("blocks.0#1") and not run.has("head")


def test_how_it_is_evaluated_is_kept_with_the_port(tmp_path: Path) -> None:
    capture = torchport.record(nn.Linear(3, 2), torch.ones(1, 3))
    target, options = find_target("marble"), MarbleOptions(by="messages", opened=True)
    artifact = target.convert(capture.graph, capture.weights, tmp_path, options)
    assert isinstance(artifact, MarbleArtifact)
    assert (artifact.facts.by, artifact.facts.opened) == ("messages", True)


class Odd(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvals(x.reshape(2, 2)).real


def test_what_no_recipe_expresses_is_listed_with_its_layer_and_line(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), Odd())
    port = torchport.port(model, torch.randn(1, 4), target="marble", out=tmp_path, dynamic="")
    report = port.check()
    assert report.status == "unsupported"
    todo = report.todos[0]
    assert todo.op == "aten.linalg_eig.default"
    assert todo.reason.startswith(f"Odd is not supported for conversion: 1 has {todo.op}")
    assert todo.layer == "1" and todo.source is not None and todo.source.startswith(__file__)
