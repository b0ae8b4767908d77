"""Peak memory by liveness, against what torch's own profiler sees when the same graph is run and freed node by node."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from torchport.capture.torch_internals import storage_id
from torchport.debug.backends.holding import Holder
from torchport.debug.backends.mock import aot_mock_backend
from torchport.debug.constraints import CheckedGraph, MemoryConstraint, check_graph
from torchport.debug.constraints.peak import peak_memory
from torchport.debug.facts import TensorFacts
from torchport.debug.nodes import GraphNode

Graphs = dict[str, tuple[CheckedGraph, torch.fx.GraphModule]]


def graphs_of(model: nn.Module, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch, *, train: bool) -> Graphs:
    """The graphs of a compilation by stage, as constraints see them and as they are run."""
    modules: dict[str, torch.fx.GraphModule] = {}
    hold = Holder.hold

    def noting(self: Holder, name: str, stage: Any, module: torch.fx.GraphModule, sizes: Any = None) -> None:
        modules[stage] = module
        hold(self, name, stage, module, sizes)

    monkeypatch.setattr(Holder, "hold", noting)
    backend = aot_mock_backend()
    with torch.set_grad_enabled(train):
        result = torch.compile(model, backend=backend)(x)
        if train:
            result.sum().backward()
    return {graph.stage: (graph, modules[graph.stage]) for graph in backend.session.graphs}


def profiled_peak(run: Callable[[], None], file: Path) -> int:
    """The most bytes that torch's profiler sees allocated at a time, beyond what was so before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        run()
    recorded.export_chrome_trace(str(file))
    events = [
        event for event in json.loads(file.read_text())["traceEvents"] if event.get("name") == "[memory]"
    ]
    events.sort(key=lambda event: event["ts"])
    totals = [event["args"]["Total Allocated"] for event in events]
    return int(max(totals) - (totals[0] - events[0]["args"]["Bytes"]))


def run_and_free(module: torch.fx.GraphModule, stage: str) -> None:
    """Runs a graph as its caller would: inputs are made first, and those that are not the caller's are given away."""
    inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
    values = made_inputs(inputs)
    callers = [value for value, node in zip(values, inputs) if stage == "forward" or "primals" in node.name]

    class Freeing(torch.fx.Interpreter):
        def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
            return values.pop(0)

    interpreter = Freeing(module)
    for node in module.graph.nodes:
        interpreter.env[node] = interpreter.run_node(node)
        for last_used in interpreter.user_to_last_uses.get(node, []):
            del interpreter.env[last_used]
    del callers


def made_inputs(inputs: list[torch.fx.Node]) -> list[Any]:
    """Tensors like the inputs of a graph, which share memory if those do."""
    storages: dict[int, torch.Tensor] = {}
    made = []
    for node in inputs:
        fake = node.meta["val"]
        size = fake.untyped_storage().nbytes() // fake.element_size()
        base = storages.setdefault(storage_id(fake), torch.full((size,), 0.5).to(fake.dtype))
        made.append(base.as_strided(fake.shape, fake.stride(), fake.storage_offset()))
    return made


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "transformer"])
def test_peak_memory_is_within_a_tenth_of_what_the_profiler_measures(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "resnet18":
        import torchvision

        model, x, train = torchvision.models.resnet18(), torch.randn(4, 3, 160, 160), False
    else:
        model, x, train = transformer(), torch.randn(8, 64, 32), True
    for stage, (graph, module) in graphs_of(model, x, monkeypatch, train=train).items():
        if stage == "dynamo":
            continue
        with torch.no_grad():
            measured = profiled_peak(lambda: run_and_free(module, stage), tmp_path / "trace.json")  # noqa: B023
        assert peak_memory(graph).bytes == pytest.approx(measured, rel=0.1), stage


def test_a_graph_over_its_peak_is_told_with_what_lives_then(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wide(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            wide = x.repeat(1, 8)
            turned = wide.view(8, -1).t() * 2
            return turned.sum()

    graph, _ = graphs_of(Wide(), torch.zeros(16, 64), monkeypatch, train=False)["forward"]
    assert peak_memory(graph).bytes == 4 * (16 * 64 + 2 * 16 * 512)
    (violation,) = check_graph(graph, [MemoryConstraint(max_peak="64KiB")])
    assert (
        violation.op == "aten.mul.Tensor"
        and "peak memory of the forward graph is 68.0 KiB" in violation.message
    )
    assert "repeat 32.0 KiB, mul 32.0 KiB" in violation.message
    assert not check_graph(graph, [MemoryConstraint(max_peak="68KiB")])


def node(name: str, kind: str, storage: int | None, inputs: tuple[str, ...] = ()) -> GraphNode:
    facts = TensorFacts((100,), torch.int8, (1,), "cpu", 100, storage=storage, storage_bytes=100)
    tensors = () if storage is None else (facts,)
    return GraphNode(name, "op", kind, inputs, tensors, "", "", None)


def test_saved_tensors_are_freed_after_their_last_use_and_the_callers_are_not() -> None:
    nodes = (
        node("primals_1", "placeholder", 0),
        node("saved", "placeholder", 1),
        node("view", "call_function", 1, ("saved",)),
        node("first", "call_function", 2, ("view",)),
        node("second", "call_function", 3, ("primals_1", "first")),
        node("output", "output", None, ("second",)),
    )
    assert peak_memory(CheckedGraph("graph_0", "backward", nodes)).bytes == 300
    assert peak_memory(CheckedGraph("graph_0", "forward", nodes)).bytes == 400
    assert peak_memory(CheckedGraph("graph_0", "forward", ())).bytes == 0
