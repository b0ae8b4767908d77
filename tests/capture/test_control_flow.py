"""Branches, loops, scans and maps are graphs of their own, and compute what eager PyTorch computes."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torchport.capture.control_flow import CONTROL_FLOW
from torchport.capture.graph import Graph, Node, body_keys
from torchport.capture.interpret import Interpreter
from torchport.capture.manifest import read_manifest, write_manifest
from torchport.capture.plan import make_plan
from torchport.capture.recorder import Capture, record
from torchport.capture.weights import stored_weights

from . import control_flow_models as models

pytestmark = pytest.mark.slow

torch.manual_seed(1)
ROWS = torch.rand(5, 4)
"""Numbers whose sum is positive."""
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[torch.Tensor, ...]]] = {
    "the first branch": (models.Branch, (ROWS,)),
    "the other branch": (models.Branch, (-ROWS,)),
    "a counted loop": (models.Counted, (ROWS - 0.5,)),
    "flags and whole numbers": (models.Flagged, (ROWS - 0.3, torch.tensor(True))),
    "a loop that does not run": (models.Flagged, (ROWS - 0.3, torch.tensor(False))),
    "a scan": (models.Running, (ROWS - 0.5,)),
    "a map": (models.Each, (torch.rand(3, 2, 4),)),
    "an associative scan": (models.Product, (ROWS + 0.5,)),
    "a branch in a loop in a map": (models.Nested, (torch.rand(3, 2, 4) - 0.4,)),
}
every_model = pytest.mark.parametrize("name", MODELS)


def made(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    make, inputs = MODELS[name]
    return models.seeded(make), inputs


@cache
def recorded(name: str) -> Capture:
    return record(*made(name))


def outputs(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    with torch.no_grad():
        result = model(*inputs)
    return [result] if isinstance(result, torch.Tensor) else list(result)


def run(capture: Capture, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    machine = Interpreter(capture.graph, capture.weights, capture.plan, lambda _, value: value)
    return machine.run(list(inputs))


def flows(graph: Graph) -> list[Node]:
    return [node for module in graph.modules.values() for node in module.nodes if node.bodies]


@every_model
def test_golden_values_are_eagers(name: str) -> None:
    (model, inputs), capture = made(name), recorded(name)
    assert capture.export_error is None and flows(capture.graph)
    keys = capture.plan.calls[capture.plan.root].outputs
    golden = [capture.golden[capture.plan.resolve(key)] for key in keys]
    for ours, theirs in zip(golden, outputs(model, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@every_model
def test_the_truth_is_what_the_model_computes_in_float64(name: str) -> None:
    (model, inputs), capture = made(name), recorded(name)
    wide = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    (layer,) = (call for call in capture.plan.calls.values() if call.type in _WRITTEN)
    operands = [capture.golden[capture.plan.resolve(key)] for key in layer.inputs]
    expected = outputs(model.double(), tuple(wide))
    assert all(value.dtype != torch.float64 for value in operands)
    for key, theirs in zip(layer.outputs, expected[-len(layer.outputs) :], strict=True):
        if theirs.is_floating_point():
            truth = capture.golden[key].double() + capture.truth[key].double()
            torch.testing.assert_close(truth, theirs, rtol=1e-12, atol=1e-12)


_WRITTEN = {kind.written for kind in CONTROL_FLOW.values()}


@every_model
def test_a_manifest_gives_the_same_graph_back(name: str, tmp_path: Path) -> None:
    capture = recorded(name)
    write_manifest(tmp_path / "m.json", capture.graph, extra={})
    assert read_manifest(tmp_path / "m.json")[0] == capture.graph


@every_model
def test_a_recording_runs_from_its_files_alone(name: str, tmp_path: Path) -> None:
    model, inputs = made(name)
    files = recorded(name).save(tmp_path)
    graph, _ = read_manifest(files["manifest"])
    weights = stored_weights(files["weights"], graph) if "weights" in files else {}
    found = Interpreter(graph, weights, make_plan(graph), lambda _, value: value).run(list(inputs))
    for ours, theirs in zip(found, outputs(model, inputs), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("recorded", [ROWS, -ROWS])
def test_the_data_takes_the_branch_whichever_was_recorded(recorded: torch.Tensor) -> None:
    model = models.seeded(models.Branch)
    capture = record(model, (recorded,))
    for x in (ROWS[:2], -ROWS[:3]):
        (ours,) = run(capture, (x,))
        torch.testing.assert_close(ours, *outputs(model, (x,)), rtol=0, atol=0)


def test_a_branch_that_did_not_run_is_named(tmp_path: Path) -> None:
    capture = record(models.seeded(models.Branch), (ROWS,))
    assert capture.idle == ("cond.false",)
    assert read_manifest(capture.save(tmp_path)["manifest"])[1]["idle"] == ["cond.false"]
    assert record(models.seeded(models.Flagged), MODELS["a loop that does not run"][1]).idle == (
        "while_loop.body",
    )


def test_weights_that_only_bodies_read_are_weights_of_the_bodies() -> None:
    capture = record(models.seeded(models.Branch), (ROWS,))
    modules = capture.graph.modules
    assert set(modules["cond.true"].params.values()) == {"inner.dense.weight", "inner.dense.bias"}
    assert set(modules["cond.false"].params.values()) == {"scale", "cond.false.constant_0"}
    assert set(capture.graph.weights) == {
        "inner.dense.weight",
        "inner.dense.bias",
        "scale",
        "cond.false.constant_0",
    }
    assert not modules[""].params and not modules["cond"].params


def test_a_weight_that_is_shared_outside_and_inside_of_bodies_is_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = models.Inner(), models.Inner()
            self.second.dense.weight = self.first.dense.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, self.first, self.second, (x,)) + self.first(x)

    model = models.seeded(Tied)
    capture = record(model, (-ROWS,))
    weights = [name for name in capture.graph.weights if name.endswith("weight")]
    assert weights == ["first.dense.weight"]
    torch.testing.assert_close(run(capture, (ROWS,)), outputs(model, (ROWS,)), rtol=0, atol=0)


def test_operations_of_a_body_know_their_module_and_line() -> None:
    graph = record(models.seeded(models.Nested), (torch.rand(3, 2, 4),)).graph
    inside = graph.modules["map.body.while_loop.body.cond.true"]
    assert [(node.op, node.layer) for node in inside.nodes] == [
        ("aten.linear.default", "branch.inner.dense"),
        ("aten.tanh.default", "branch.inner"),
    ]
    lines = Path(models.__file__).read_text().splitlines()
    file, _, line = (inside.nodes[1].source or "").rpartition(":")
    assert file == models.__file__ and "self.dense(x).tanh()" in lines[int(line) - 1]
    (flow,) = graph.modules["map"].nodes
    file, _, line = (flow.source or "").rpartition(":")
    assert file == models.__file__ and "map_over(one, x)" in lines[int(line) - 1]


def test_control_flow_is_a_layer_whose_operands_and_results_are_recorded() -> None:
    model = models.seeded(lambda: models.Net(models.Counted()))
    capture = record(model, (ROWS,))
    call = capture.plan.calls["inner.while_loop"]
    assert call.type == "while_loop" and call.parent == "inner" and len(call.outputs) == 1
    with torch.no_grad():
        expected = model.inner(model.before(ROWS))[1]
    torch.testing.assert_close(capture.golden["inner.while_loop"], expected, rtol=0, atol=0)
    assert not any(key.startswith("inner.while_loop.") for key in capture.golden)


def test_a_module_with_the_name_of_control_flow_is_not_mixed_up_with_it() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cond, self.inner = nn.Linear(4, 4), models.Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first = torch.cond(x.sum() > 0, self.inner, torch.sin, (self.cond(x),))
            return torch.cond(x.sum() > 1, self.inner, torch.cos, (first,))

    model = models.seeded(Named)
    capture = record(model, (ROWS,))
    assert {"cond", "cond_1", "cond_2", "cond_1.true", "cond_2.false"} <= set(capture.graph.modules)
    torch.testing.assert_close(run(capture, (-ROWS,)), outputs(model, (-ROWS,)), rtol=0, atol=0)


def test_free_sizes_are_free_inside_bodies() -> None:
    model = models.seeded(models.Counted)
    capture = record(model, (ROWS,))
    assert capture.graph.symbols
    for length in (1, 2, 9):
        x = torch.rand(length, 4)
        torch.testing.assert_close(run(capture, (x,)), outputs(model, (x,)), rtol=0, atol=0)


def test_a_size_that_a_body_closes_over_is_that_of_the_inputs() -> None:
    class Sized(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            length = x.shape[0]
            return torch.cond(x.sum() > 0, lambda x: x / length, lambda x: x * length, (x,))

    capture = record(Sized(), (ROWS,))
    for x in (torch.rand(3, 4), -torch.rand(7, 4)):
        torch.testing.assert_close(run(capture, (x,)), outputs(Sized(), (x,)), rtol=0, atol=0)


@pytest.mark.parametrize(("name", "shape"), [("a map", (0, 2, 4)), ("a scan", (0, 4))])
def test_without_elements_nothing_runs_and_what_is_stacked_is_empty(
    name: str, shape: tuple[int, ...]
) -> None:
    """Eager PyTorch refuses to map over nothing, and a port does what the graph says."""
    capture = recorded(name)
    x = torch.empty(shape)
    (call,) = (call for call in capture.plan.calls.values() if call.type in _WRITTEN)
    (node,) = capture.graph.modules[call.module].nodes
    machine = Interpreter(capture.graph, capture.weights, capture.plan, lambda _, value: value)
    machine.bindings, machine.device = {"batch": 0}, x.device
    carry = torch.rand(4)
    args: tuple[Any, ...] = ([x], [torch.rand(2, 4)]) if name == "a map" else ([carry], [x], [])
    results = machine.apply(node, args, {})
    assert results[-1].shape == shape and results[-1].dtype == torch.float32
    if name == "a scan":
        torch.testing.assert_close(results[0], carry)


def test_a_loop_takes_as_many_steps_in_float64_as_in_the_model() -> None:
    x = torch.tensor([2.0, 3.0, 7.0])
    model = models.Converging()
    capture = record(model, (x,))
    steps, root = outputs(model, (x,))
    wide_steps, _ = outputs(model, (x.double(),))
    assert steps != wide_steps, "the model must decide otherwise in float64, or nothing is tested"
    assert capture.truth["while_loop"] == 0 and capture.golden["while_loop"] == steps
    torch.testing.assert_close(
        root.double() + capture.truth["while_loop:1"].double(), x.double().sqrt(), rtol=1e-9, atol=0
    )


@pytest.mark.parametrize(
    ("make", "bodies"),
    [
        (models.Counted, {"while_loop.condition", "while_loop.body"}),
        (models.Running, {"scan.body"}),
        (models.Each, {"map.body"}),
    ],
)
def test_a_model_without_values_has_its_bodies(make: Callable[[], nn.Module], bodies: set[str]) -> None:
    with torch.device("meta"):
        model = make().eval()
    capture = record(model, (torch.empty(3, 2, 4, device="meta"),))
    assert capture.export_error is None and not capture.has_values
    assert body_keys(capture.graph.modules) == bodies
    inside = {weight for key in bodies for weight in capture.graph.modules[key].params.values()}
    assert {"inner.dense.weight", "inner.dense.bias"} <= inside
