"""A trace as our own `Graph` of one module, with its weights apart from its inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import torch

from torchport.capture import fx
from torchport.capture import graph as g
from torchport.capture.simplify import simplify
from torchport.errors import CaptureError
from torchport.explain.rewriting import renamed


def graph_of(traced: torch.fx.GraphModule, weights: Mapping[int, str], *, type: str, name: str) -> g.Graph:
    """The graph of a module of class `type`; some of the inputs, by their positions, are weights of these names."""
    whole = _read(traced, type, name)
    own = {item.name: weights[index] for index, item in enumerate(whole.root.inputs) if index in weights}
    known = {
        own[item.name]: g.Weight(item.meta, "parameter") for item in whole.root.inputs if item.name in own
    }
    inputs = tuple(item for item in whole.root.inputs if item.name not in own)
    root = replace(whole.root, inputs=inputs, params=own)
    graph = simplify(replace(whole, modules={"": root}, weights=known))
    return _named(graph)


def _read(traced: torch.fx.GraphModule, type: str, name: str) -> g.Graph:
    """The graph as it was traced, every tensor that it reads an input."""
    examples = [node.meta.get("val") for node in traced.graph.nodes if node.op == "placeholder"]
    whole = fx.graph_of(traced, examples, name=name).graph
    if whole.weights:
        raise CaptureError(
            "TP0202", f"the trace of {type} holds tensors of its own: {', '.join(whole.weights)}"
        )
    return replace(whole, modules={"": replace(whole.root, type=type)})


def _named(graph: g.Graph) -> g.Graph:
    """The graph with inputs called `input_0`, `input_1`, … and weights called as in Python code."""
    root = graph.root
    names = {item.name: f"input_{index}" for index, item in enumerate(root.inputs)}
    names |= {node: re.sub(r"\W", "_", node) for node in root.params}
    return replace(graph, modules={"": renamed(root, names)})
