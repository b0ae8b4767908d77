"""Where the inputs of an ATen graph come from: AOTAutograd numbers them, and Dynamo's graph knows their places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch

from torchport.debug.constraints.base import CheckedGraph
from torchport.debug.internals.aot_eager import input_number
from torchport.debug.nodes import GraphNode


def with_places_of_inputs(
    nodes: Iterable[GraphNode], module: torch.fx.GraphModule, dynamo: CheckedGraph | None
) -> Sequence[GraphNode]:
    """The nodes of an ATen graph. Inputs that are those of Dynamo's graph have their module and line from there."""
    if dynamo is None:
        return list(nodes)
    inputs = [node for node in dynamo.nodes if node.kind == "placeholder"]
    numbers = {node.name: input_number(node) for node in module.graph.nodes if node.op == "placeholder"}
    return [_placed(node, inputs, numbers) for node in nodes]


def _placed(node: GraphNode, inputs: Sequence[GraphNode], numbers: Mapping[str, int | None]) -> GraphNode:
    number = numbers.get(node.name)
    if number is None or number >= len(inputs):
        return node
    origin = inputs[number]
    return replace(node, module=origin.module, module_type=origin.module_type, source=origin.source)
