"""Where torch.export fails, hooks record what can be seen, and only what cannot is left unknown."""

from pathlib import Path

import pytest
import torch
from torch import nn

from torchport.capture import graph as g
from torchport.capture.hooks import UNKNOWN
from torchport.capture.manifest import read_manifest
from torchport.capture.recorder import Capture, record
from torchport.trace.reading import Trace

from . import models
from .test_recorder import seen_by_hooks, value

pytestmark = pytest.mark.slow

X = torch.linspace(-1, 2, 8).reshape(2, 4)


@pytest.fixture(scope="module")
def model() -> models.Gated:
    torch.manual_seed(0)
    return models.Gated().eval()


@pytest.fixture(scope="module")
def gated(model: models.Gated) -> Capture:
    return record(model, X, name="gated")


def unknown(capture: Capture) -> dict[str, list[g.Node]]:
    found = {
        key: [node for node in module.nodes if node.op == UNKNOWN]
        for key, module in capture.graph.modules.items()
    }
    return {key: nodes for key, nodes in found.items() if nodes}


def test_the_error_names_the_users_line_and_what_it_says(gated: Capture) -> None:
    error = gated.export_error
    assert error is not None and error.code == "TP0202"
    assert error.where == f"{models.__file__}:{models.GATE_LINE}"
    assert "if y.sum() > 0:" in error.message and "value of a tensor" in error.message
    assert "torch.where" in (error.fix or "")


def test_only_the_module_at_fault_is_unknown(gated: Capture) -> None:
    assert unknown(gated).keys() == {"blocks.0.gate", "blocks.1.gate"}
    block = gated.graph.modules["blocks.0"]
    assert [node.op for node in block.nodes] == ["call", "call", "aten.tanh.default", "aten.add.Tensor"]


def test_an_unknown_operation_says_where_why_and_what_comes_in_and_out(gated: Capture) -> None:
    (node,) = unknown(gated)["blocks.0.gate"]
    assert node.source == f"{models.__file__}:{models.GATE_LINE}"
    assert "if y.sum() > 0:" in node.kwargs["reason"]
    assert node.args == ([g.Ref("input_0"), g.Ref("dense")],)
    assert node.outputs == (g.TensorMeta((2, 4), "float32"),)


def test_the_modules_around_have_types_shapes_attributes_and_calls_in_order(gated: Capture) -> None:
    gate = gated.graph.modules["blocks.0.gate"]
    assert gate.type == f"{models.__name__}.Gate" and gate.attributes["factor"] == 3.0
    assert gate.source == f"{models.__file__}:{models.Gate.forward.__code__.co_firstlineno}"
    assert gate.inputs[0].meta == g.TensorMeta((2, 4), "float32")
    assert [(node.op, node.target) for node in gate.nodes] == [
        ("call", "blocks.0.gate.dense"),
        (UNKNOWN, None),
    ]
    assert list(gated.plan.calls) == [
        *("blocks.0.norm", "blocks.0.gate.dense", "blocks.0.gate", "blocks.0"),
        *("blocks.1.norm", "blocks.1.gate.dense", "blocks.1.gate", "blocks.1"),
        *("head", "Gated"),
    ]


def test_weights_that_only_the_unknown_part_reads_are_kept(gated: Capture, model: models.Gated) -> None:
    assert gated.graph.modules["blocks.0.gate"].params["w_scale"] == "blocks.0.gate.scale"
    assert gated.weights.keys() == model.state_dict().keys()


def test_every_module_has_its_golden_value(gated: Capture, model: models.Gated) -> None:
    for path, expected in seen_by_hooks(model, X).items():
        if path not in ("", "blocks"):
            torch.testing.assert_close(value(gated, path), expected, rtol=0, atol=0)
    torch.testing.assert_close(value(gated, "Gated"), model(X)["logits"].detach(), rtol=0, atol=0)


def test_there_is_no_truth_for_what_is_not_known(gated: Capture) -> None:
    assert {"blocks.0.norm", "blocks.0.gate.dense", "blocks.0", "head"} <= gated.truth.keys()
    assert "blocks.0.gate" not in gated.truth


def test_manifest_and_trace_are_of_one_piece(tmp_path: Path, gated: Capture) -> None:
    files = gated.save(tmp_path)
    graph, data = read_manifest(files["manifest"])
    assert graph == gated.graph
    assert data["export_error"]["where"] == f"{models.__file__}:{models.GATE_LINE}"
    with Trace(files["trace"]) as trace:
        for call in data["calls"]:
            assert all(trace.has(key) for key in (*call["inputs"], *call["outputs"]))


def test_a_root_that_chooses_its_child_is_unknown_even_if_one_choice_was_seen() -> None:
    model = models.Switch()
    capture = record(model, X)
    assert [node.op for node in capture.graph.root.nodes] == ["call", UNKNOWN]
    assert capture.graph.root.nodes[0].target == "up"
    assert {"down.weight", "down.bias"} <= capture.weights.keys(), "the other choice may be needed"
    with torch.no_grad():
        torch.testing.assert_close(value(capture, "Switch"), model(X), rtol=0, atol=0)


def test_what_happens_between_calls_is_unknown_and_what_is_handed_on_is_not() -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.b(self.a(x))
            if y.sum() > 100:
                y = -y
            z = self.c(y * 2)
            z += 1
            return z, y

    model = Chain()
    capture = record(model, X)
    a, b, between, c, result = capture.graph.root.nodes
    assert (a.target, b.target, c.target) == ("a", "b", "c")
    assert b.args == (g.Ref("a"),) and c.args == (g.Ref(between.name),)
    assert between.op == result.op == UNKNOWN and len(result.outputs) == 2
    with torch.no_grad():
        first, second = model(X)
    torch.testing.assert_close(value(capture, "Chain"), first, rtol=0, atol=0)
    torch.testing.assert_close(value(capture, "Chain:1"), second, rtol=0, atol=0)


def test_a_value_written_to_between_calls_is_not_taken_for_the_one_before() -> None:
    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.a(x)
            y.add_(1)
            return self.b(y) if x.sum() > 0 else y

    model = Writes()
    capture = record(model, X)
    with torch.no_grad():
        torch.testing.assert_close(value(capture, "b<0"), model.a(X) + 1, rtol=0, atol=0)
        torch.testing.assert_close(value(capture, "a"), model.a(X), rtol=0, atol=0)


def test_a_gate_called_twice_has_two_values() -> None:
    class Again(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = models.Gate()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.gate(self.gate(x).sin())

    model = Again()
    capture = record(model, X)
    with torch.no_grad():
        first = model.gate(X)
        torch.testing.assert_close(value(capture, "gate"), first, rtol=0, atol=0)
        torch.testing.assert_close(value(capture, "gate#1"), model.gate(first.sin()), rtol=0, atol=0)
    assert all(key.partition("@")[0] in ("gate",) for key in unknown(capture))


class Item(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (x.abs().sum().item() + 1)


class SizeByValue(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.arange(1 + int(x.argmax())) * 2


class Numpy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.detach().numpy() * 2)


@pytest.mark.parametrize(
    "kind",
    [
        Item,
        SizeByValue,
        Numpy,
    ],
)
def test_whatever_export_cannot_hold_is_recorded_with_the_reason(kind: type[nn.Module]) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.odd = nn.Linear(4, 4), kind()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.odd(self.before(x))

    model = Outer()
    capture = record(model, X)
    assert capture.export_error is not None and capture.export_error.code == "TP0202"
    assert unknown(capture)
    with torch.no_grad():
        torch.testing.assert_close(value(capture, "Outer"), model(X))
        torch.testing.assert_close(value(capture, "before"), model.before(X))
    assert "aten.linear.default" in {node.op for node in capture.graph.modules["before"].nodes}


class Counts(nn.Module):
    """Writes to buffers: one in place, one by putting another in its place, one not at all."""

    def __init__(self, decides: bool) -> None:
        super().__init__()
        self.decides = decides
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("last", torch.zeros(2, 4))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.last = x * 1
        return -x if self.decides and x.sum() > 100 else x * self.scale


def test_buffers_that_are_written_to_are_noted_in_what_is_known_and_in_what_is_not(tmp_path: Path) -> None:
    model = nn.Sequential(Counts(decides=False), Counts(decides=True))
    capture = record(model, X)
    assert unknown(capture).keys() == {"0", "1"}, "modules of a class run the same lines"
    assert capture.writes == ("0.count", "0.last", "1.count", "1.last")
    assert read_manifest(capture.save(tmp_path)["manifest"])[1]["writes"] == list(capture.writes)
    assert float(model[0].count) == float(model[1].count) == 0


def test_buffers_that_are_written_to_outside_the_modules_at_fault_are_noted() -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.counts, self.gate = Counts(decides=False), models.Gate()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.gate(self.counts(x))

    capture = record(Outer(), X)
    assert unknown(capture).keys() == {"gate"}
    assert capture.writes == ("counts.count", "counts.last")
