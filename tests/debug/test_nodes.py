"""What is read of a node: names, places, and which tensors share memory."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from torchport.debug.facts import facts_of
from torchport.debug.internals.needs import missing
from torchport.debug.nodes import clean_path, read_nodes


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("L['self'].layer1[0].conv", "layer1.0.conv"),
        ("L['model'].layer1", "layer1"),
        ("L['fn']", ""),
        ("L['self']._modules['layer1']._modules['0']", "layer1.0"),
        ("self_attention.query", "self_attention.query"),
    ],
)
def test_paths_are_those_of_the_model(written: str, path: str) -> None:
    assert clean_path(written) == path


def traced(*args: torch.Tensor) -> torch.fx.GraphModule:
    def views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second = x.t().split(2)
        return first, second * 2, torch.ops.aten._unsafe_view(x, [-1]), x.clone()

    graph: torch.fx.GraphModule = make_fx(views, tracing_mode="fake")(*args)
    return graph


def test_views_share_a_storage_and_copies_do_not() -> None:
    nodes = {node.name: node for node in read_nodes(traced(torch.zeros(3, 4)))}
    shared = nodes["x_1"].tensors[0].storage
    assert {tensor.storage for name in ("t", "split", "_unsafe_view") for tensor in nodes[name].tensors} == {
        shared
    }
    assert len({shared, nodes["mul"].tensors[0].storage, nodes["clone"].tensors[0].storage}) == 3
    assert nodes["split"].tensors[0].storage_bytes == 48 and nodes["split"].tensors[0].bytes == 24


def test_the_schema_says_what_is_shared_if_the_values_do_not() -> None:
    graph = traced(torch.zeros(3, 4))
    for node in graph.graph.nodes:
        if node.name == "t":
            node.meta["val"] = node.meta["val"].clone()
    nodes = {node.name: node for node in read_nodes(graph)}
    assert nodes["t"].tensors[0].storage == nodes["x_1"].tensors[0].storage


def test_a_repeated_axis_takes_memory_once() -> None:
    assert facts_of(torch.zeros(3, 1).expand(3, 100)).bytes == 12
    assert facts_of(torch.zeros(0, 3)).bytes == 0 and facts_of(torch.zeros(())).bytes == 4


def test_torch_has_all_private_parts_that_are_needed() -> None:
    assert missing() == []
