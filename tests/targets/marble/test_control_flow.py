"""Control flow as neurons: branches joined by a switch, loop bodies that are there once, one inside the other."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop

import torchport
from torchport import Port
from torchport.capture.recorder import record
from torchport.targets.marble.convert import convert
from torchport.targets.marble.evaluate import by_groups, by_messages
from torchport.targets.marble.groups import Flow, Kind
from torchport.targets.marble.target import TARGET, MarbleArtifact

from ...capture import control_flow_models as models
from ..conformance import spoil_weight
from .copies import copy_of

pytestmark = pytest.mark.slow

ROWS = torch.rand(5, 4, generator=torch.Generator().manual_seed(2))


class BranchInLoop(nn.Module):
    """A loop that takes another branch in some of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = models.Branch()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def body(count: torch.Tensor, y: torch.Tensor) -> models.Pair:
            return count + 1, self.branch(y) - 0.4

        return while_loop(lambda count, y: count < 4, body, (torch.tensor(0), x))[1]


MODELS: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "cond": (models.Branch, -ROWS),
    "while_loop until nothing changes": (models.Converging, ROWS + 0.1),
    "scan": (models.Running, ROWS),
    "associative_scan": (models.Product, ROWS),
    "cond in while_loop in map": (models.Nested, torch.stack([ROWS, -ROWS])),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_way_to_evaluate_agrees_with_torch_for_any_length(name: str) -> None:
    make, x = MODELS[name]
    model = models.seeded(make)
    capture = record(model, (x,), truth=False, decompose=lambda op: not TARGET.supports(op))
    made = convert(capture.graph, {item.name: tuple(x.shape) for item in capture.graph.root.inputs})
    assert not made.todos
    arrays = {**capture.weights, **made.made}
    for given in (x, torch.cat([x, x * 1.1]), x.abs()):
        with torch.no_grad():
            result = model(given)
        wanted = [result] if isinstance(result, torch.Tensor) else list(result)
        for found in (
            by_groups(made.graph, arrays, [given]),
            by_groups(made.graph, arrays, [given], opened=None),
            by_messages(made.graph, arrays, [given]),
        ):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_body_has_its_neurons_once_and_a_switch_has_one_for_each_result() -> None:
    model = models.seeded(models.Branch)
    capture = record(model, (ROWS,), truth=False)
    graph = convert(capture.graph, {"x": (5, 4)}).graph
    (flow,) = [step for step in graph.steps if isinstance(step, Flow)]
    assert flow.joint.kind is Kind.SELECTION and flow.joint.neurons == ROWS.numel()
    assert set(flow.bodies) == {"true", "false"}
    ids = [one for group in graph.groups() for one in group.ids]
    assert sorted(ids) == list(range(graph.neurons))
    names = [group.name for group in graph.groups()]
    assert len(names) == len(set(names))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Port:
    model = models.seeded(lambda: models.Net(BranchInLoop()))
    out = tmp_path_factory.mktemp("port")
    return torchport.port(model, (ROWS,), target="marble", out=out, name="net")


@pytest.fixture
def port(made: Port, tmp_path: Path) -> Port:
    """A copy of the port, which a test may change."""
    return copy_of(made, tmp_path)


@pytest.mark.parametrize("by", ["groups", "messages"])
def test_a_branch_inside_a_loop_is_proven_on_inputs_that_take_either(by: str, port: Port) -> None:
    assert isinstance(port.artifact, MarbleArtifact)
    port.artifact.keep(port.artifact.facts.model_copy(update={"by": by}))
    assert port.check().passed
    report = port.check((-ROWS.repeat(2, 1),))
    assert report.passed and "inner.while_loop" in [layer.name for layer in report.layers]


def test_a_fault_inside_a_body_is_blamed_on_the_control_flow(port: Port) -> None:
    path = port.artifact.folder / "neurons.json"
    text = path.read_text()
    assert '"work": "aten.tanh.default"' in text
    path.write_text(text.replace('"work": "aten.tanh.default"', '"work": "aten.sigmoid.default"'))
    found = port.check().first_divergence
    assert found is not None and (found.layer, found.kind) == ("inner.while_loop", "own") and found.edits
    assert found.operation is not None and found.operation.op == "torchport.while_loop.default"
    assert found.snippet is not None
    again = Port.open(Path(found.snippet) / "port").check(explain=False)
    assert again.status == "fail"


def test_a_wrong_weight_that_only_a_body_reads_is_the_cause_that_is_found(port: Port) -> None:
    assert port.artifact.stored is not None
    spoil_weight(port.artifact.stored, "inner.branch.inner.dense.weight")
    found = port.check().first_divergence
    assert found is not None and found.layer == "inner.while_loop"
    assert [one.text for one in found.suggestions] == [
        "inner.branch.inner.dense.weight is not the tensor that was recorded"
    ]


def test_the_file_has_the_bodies_by_their_roles(made: Port) -> None:
    data = json.loads((made.artifact.folder / "neurons.json").read_text())
    (flow,) = [step for step in data["steps"] if "flow" in step]
    (inner,) = [step for step in flow["bodies"]["body"]["steps"] if "flow" in step]
    assert set(flow["bodies"]) == {"condition", "body"} and set(inner["bodies"]) == {"true", "false"}
