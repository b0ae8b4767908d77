"""A trace as our own `Graph` of one module, with its weights apart from its inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from torchport.capture import graph as g
from torchport.capture.reader import GraphReader
from torchport.capture.simplify import simplify
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
    labels = [node.name for node in traced.graph.nodes if node.op == "placeholder"]
    reader = GraphReader(_OneModule(traced, labels), "", traced, traced.graph)
    reader.read()
    inputs, outputs = tuple(reader.inputs), tuple(reader.outputs)
    root = g.Module("", type, inputs, tuple(reader.nodes), outputs)
    return g.Graph(name, {"": root}, {}, (), tuple(f"output_{index}" for index in range(len(outputs))))


class _OneModule:
    """What a reader asks of the model around a module, if there is only this one."""

    def __init__(self, traced: torch.fx.GraphModule, labels: Sequence[str]):
        self.traced, self.labels = traced, list(labels)
        self.own_tensors: set[str] = set()
        self.rename: Mapping[str, str] = {}

    @property
    def tree(self) -> torch.nn.Module:
        return self.traced

    def graph_of(self, key: str) -> torch.fx.Graph:
        return self.traced.graph

    def weight(self, name: str, tensor: torch.Tensor) -> str:
        raise AssertionError("every tensor that the trace holds has become an input of it")


def _named(graph: g.Graph) -> g.Graph:
    """The graph with inputs called `input_0`, `input_1`, … and weights called as in Python code."""
    root = graph.root
    names = {item.name: f"input_{index}" for index, item in enumerate(root.inputs)}
    names |= {node: re.sub(r"\W", "_", node) for node in root.params}
    return replace(graph, modules={"": renamed(root, names)})
