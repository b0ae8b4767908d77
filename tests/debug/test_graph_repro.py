"""The script of a graph computes what the graph computes, by itself."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchport.debug.graph_text import NoScript
from torchport.debug.repro import Repro, repro


def captured(model: Callable[..., Any], *inputs: Any, dynamic: bool = False) -> tuple[Any, Sequence[Any]]:
    """The graph that Dynamo makes, and what it would hand to a backend with it."""
    found = []

    def backend(module: torch.fx.GraphModule, given: Sequence[Any]) -> Callable[..., Any]:
        found.append((module, list(given)))
        return module.forward

    torch.compile(model, backend=backend, dynamic=dynamic or None)(*inputs)
    (graph,) = found
    return graph


def loaded(script: Repro, folder: Path) -> dict[str, Any]:
    """What the script defines, without what it does when it is run."""
    (folder / "graph.py").write_text(script.script)
    if script.inputs is not None:
        torch.save(script.inputs, folder / "inputs.pt")
    return runpy.run_path(str(folder / "graph.py"), run_name="graph")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 8)
        self.norm = nn.LayerNorm(8)
        self.dropout = nn.Dropout(0.5)

    def forward(self, ids: Tensor, mask: Tensor, scale: float) -> tuple[Tensor, dict[str, Tensor]]:
        hidden = self.norm(self.embed(ids)) * scale
        with torch.no_grad():
            limit = hidden.amax()
        return self.dropout(hidden).masked_fill(mask, -float("inf")), {"limit": limit}


def test_saved_inputs_give_the_values_and_gradients_of_the_graph(tmp_path: Path) -> None:
    model = Model().eval()
    ids, mask = torch.randint(0, 50, (2, 3)), torch.zeros(2, 3, 8, dtype=torch.bool)
    graph, inputs = captured(model, ids, mask, 0.5)
    made = loaded(repro(graph, inputs, title="graph_0", inputs_of="saved"), tmp_path)
    outputs = made["run"]()
    expected, extra = model(ids, mask, 0.5)
    torch.testing.assert_close(outputs[0], expected.detach())
    torch.testing.assert_close(outputs[1], extra["limit"])
    expected.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert len(outputs) == 2 + len(gradients)
    for gradient in gradients:
        assert any(torch.equal(gradient, found) for found in outputs[2:] if found.shape == gradient.shape)


def test_a_run_of_the_script_leaves_nothing_for_the_next(tmp_path: Path) -> None:
    """Gradients that were added up over runs would hide a difference between them."""

    def scaled(x: Tensor, w: Tensor) -> Tensor:
        return x.mul_(2) @ w

    graph, inputs = captured(scaled, torch.randn(20, 20), torch.randn(20, 20, requires_grad=True))
    script = repro(graph, inputs, title="graph_0", inputs_of="saved")
    assert script.inputs is not None and len(script.inputs) == 2
    run = loaded(script, tmp_path)["run"]
    for first, second in zip(run(), run(), strict=True):
        assert torch.equal(first, second)


def test_random_inputs_are_of_the_same_kind_and_ids_are_the_same(tmp_path: Path) -> None:
    ids, mask = torch.randint(0, 50, (2, 3)), torch.zeros(2, 3, 8, dtype=torch.bool)
    graph, inputs = captured(Model(), ids, mask, 0.5)
    script = repro(graph, inputs, title="graph_0")
    assert script.inputs is None
    made = loaded(script, tmp_path)["inputs"]()
    for real, one in zip(inputs, made, strict=True):
        if isinstance(real, Tensor):
            assert (one.shape, one.stride(), one.dtype) == (real.shape, real.stride(), real.dtype)
            assert one.requires_grad == real.requires_grad
            assert real.is_floating_point() or torch.equal(one, real)
        else:
            assert one == real


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(3).expand(4, 3),
        torch.randn(4, 6).T,
        torch.randn(8, 6)[::2, 1:3],
        torch.randn(0, 3),
        torch.randn(()),
        torch.randn(3, dtype=torch.complex64),
        torch.randn(3).to(torch.float8_e4m3fn),
        torch.arange(10_000),
    ],
    ids=["expanded", "transposed", "cut", "empty", "scalar", "complex", "float8", "many integers"],
)
def test_inputs_of_every_kind(value: Tensor, tmp_path: Path) -> None:
    module = torch.fx.symbolic_trace(lambda x: (x.view(x.shape),))
    (made,) = loaded(repro(module, [value], title="graph_0"), tmp_path)["inputs"]()
    assert (made.shape, made.stride(), made.dtype) == (value.shape, value.stride(), value.dtype)


def test_free_sizes_have_the_values_of_the_example(tmp_path: Path) -> None:
    graph, inputs = captured(lambda x: x * x.shape[0], torch.ones(5, 2), dynamic=True)
    outputs = loaded(repro(graph, inputs, title="graph_0", inputs_of="saved"), tmp_path)["run"]()
    torch.testing.assert_close(outputs[0], torch.full((5, 2), 5.0))


def test_tensors_that_the_graph_holds_are_saved(tmp_path: Path) -> None:
    class Holding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3))
            self.register_buffer("shift", torch.randn(3))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight + self.shift

    model, x = Holding(), torch.randn(2, 3)
    script = repro(torch.fx.symbolic_trace(model), [x], title="graph_0", inputs_of="saved")
    torch.testing.assert_close(loaded(script, tmp_path)["run"]()[0], model(x).detach())
    script = repro(torch.fx.symbolic_trace(model), [x], title="graph_0", inputs_of="random")
    graph = loaded(script, tmp_path)["Graph"]()
    torch.testing.assert_close(graph(x), model(x))


def test_what_cannot_stand_alone_is_refused_with_the_reason() -> None:
    def own(x: Tensor) -> Tensor:
        return x + 1

    graph = torch.fx.Graph()
    graph.output((graph.call_function(own, (graph.placeholder("x"),)),))
    with pytest.raises(NoScript, match="own"):
        repro(torch.fx.GraphModule(nn.Module(), graph), [torch.ones(2)], title="graph_0")
    with pytest.raises(NoScript, match="calls the module 0"):
        repro(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2))), [torch.ones(1, 2)], title="graph_0")
    identity = torch.fx.symbolic_trace(lambda x: (x,))
    with pytest.raises(NoScript, match="input x is a set"):
        repro(identity, [{1}], title="graph_0")


@pytest.mark.slow
def test_the_script_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    graph, inputs = captured(lambda x, w: torch.relu(x) @ w, torch.randn(4, 4), torch.randn(4, 2))
    script = repro(graph, inputs, title="graph_0", inputs_of="saved").script
    (tmp_path / "graph.py").write_text(script.replace('run("inductor")', 'run("eager")'))
    torch.save(repro(graph, inputs, title="graph_0", inputs_of="saved").inputs, tmp_path / "inputs.pt")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-I", str(tmp_path / "graph.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "[4, 2] torch.float32: differs by at most 0" in done.stdout and "import torchport" not in script
    assert "from torchport" not in script
