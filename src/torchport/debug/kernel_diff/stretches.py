"""A graph in stretches, each of which gives all its values: together they are what a backend computes at every node.

A graph whose values fit into memory is one stretch. Of a larger one, each stretch is given what those before it have
computed, so that no more than the values of one are held at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.debug.kernel_diff.captured import CapturedGraph
from torchport.debug.kernel_diff.route import CompiledGraph, Route
from torchport.debug.kernel_diff.steps import Step


@dataclass(frozen=True)
class Stretch:
    """Some operations of a graph in a row, as a graph of their own."""

    module: torch.fx.GraphModule
    reads: tuple[torch.fx.Node, ...]
    """The nodes of the whole graph whose values it is given: inputs, and what stretches before it compute."""
    values: tuple[torch.fx.Node, ...]
    """The nodes whose tensors it gives."""


@dataclass(frozen=True)
class CompiledStretch:
    stretch: Stretch
    compiled: CompiledGraph

    def run(self, given: Callable[[torch.fx.Node], Any]) -> Any:
        return self.compiled.run([given(node) for node in self.stretch.reads])


def compile_stretches(
    route: Route, graph: CapturedGraph, steps: Sequence[Step], most_bytes: float
) -> list[CompiledStretch]:
    inputs = dict(zip(graph.placeholders, graph.inputs, strict=True))

    def example(node: torch.fx.Node) -> Any:
        return inputs[node] if node in inputs else _zeros(node.meta["val"])

    return [
        CompiledStretch(
            stretch,
            route.compile(stretch.module, [example(node) for node in stretch.reads], graph.stage),
        )
        for stretch in stretches(graph, steps, most_bytes)
    ]


def stretches(graph: CapturedGraph, steps: Sequence[Step], most_bytes: float = math.inf) -> list[Stretch]:
    """The graph in as few stretches as give at most so many bytes each, but for operations that give more alone."""
    seen = {value for step in steps for value in step.values}
    return [_stretch(graph, nodes, seen) for nodes in _runs_of_nodes(graph, seen, most_bytes)]


def _runs_of_nodes(
    graph: CapturedGraph, seen: set[torch.fx.Node], most_bytes: float
) -> Iterator[list[torch.fx.Node]]:
    """The operations of a graph in a row, cut only if all that is read across the cut is a value that is seen."""
    nodes = [node for node in graph.module.graph.nodes if node.op == "call_function"]
    places = {node: place for place, node in enumerate(nodes)}
    some: list[torch.fx.Node] = []
    held, open_until = 0, -1
    for place, node in enumerate(nodes):
        size = bytes_of(node) if node in seen else 0
        if some and held + size > most_bytes and open_until < place:
            yield some
            some, held = [], 0
        some.append(node)
        held += size
        if node not in seen:
            open_until = max([open_until, *(places[user] for user in node.users if user in places)])
    if some:
        yield some


def _stretch(graph: CapturedGraph, nodes: list[torch.fx.Node], seen: set[torch.fx.Node]) -> Stretch:
    own = set(nodes)
    read = dict.fromkeys(one for node in nodes for one in node.all_input_nodes if one not in own)
    reads = tuple(one for one in read if one.op != "get_attr")
    made = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in (*reads, *(one for one in read if one.op == "get_attr")):
        is_constant = node.op == "get_attr"
        copies[node] = made.get_attr(str(node.target)) if is_constant else made.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in nodes:
        copies[node] = made.node_copy(node, copies.__getitem__)
    values = tuple(node for node in nodes if node in seen)
    made.output(tuple(copies[node] for node in values))
    made.eliminate_dead_code(is_impure_node=lambda node: node.op in ("placeholder", "output"))
    return Stretch(torch.fx.GraphModule(graph.module, made), reads, values)


def bytes_of(node: torch.fx.Node) -> int:
    value: Tensor = node.meta["val"]
    return int(value.numel()) * value.element_size()


def _zeros(like: Tensor) -> Tensor:
    shape, strides = (tuple(int(size) for size in sizes) for sizes in (like.shape, like.stride()))
    return torch.empty_strided(shape, strides, dtype=like.dtype, device=like.device).zero_()
