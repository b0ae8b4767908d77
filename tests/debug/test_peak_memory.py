"""Peak memory by liveness, against what torch's own profiler sees when the same graph is run and freed node by node."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks import bench_peak_memory
from torchport.debug.constraints import CheckedGraph, MemoryConstraint, check_graph
from torchport.debug.constraints.peak import peak_memory
from torchport.debug.facts import TensorFacts
from torchport.debug.nodes import GraphNode


@pytest.mark.slow
@pytest.mark.parametrize("name", bench_peak_memory.MODELS)
def test_peak_memory_is_within_a_tenth_of_what_the_profiler_measures(name: str) -> None:
    stages = list(bench_peak_memory.measured(name, "cpu"))
    assert stages
    for stage, told, real in stages:
        assert told == pytest.approx(real, rel=bench_peak_memory.BOUND), stage


def test_a_graph_over_its_peak_is_told_with_what_lives_then() -> None:
    class Wide(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            wide = x.repeat(1, 8)
            turned = wide.view(8, -1).t() * 2
            return turned.sum()

    graph, _ = bench_peak_memory.graphs_of(Wide(), torch.zeros(16, 64), train=False)["forward"]
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
