"""Another backend than eager PyTorch as the reference: what it computes from the values of the backend under test.

A compilation has every operation by itself, each reading the values that the backend under test gave, and the
operations of every module in a row; there are several if the values are too many to be held at once. So the reference
is given the same inputs at each place as the backend was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.debug.kernel_diff.candidate import CompiledPair, compile_pair, run_pair
from torchport.debug.kernel_diff.computing import Computing
from torchport.debug.kernel_diff.planning import GraphPlan
from torchport.debug.kernel_diff.route import Route
from torchport.debug.kernel_diff.steps import Step, outputs_of
from torchport.debug.kernel_diff.stretches import bytes_of


@dataclass
class ReferenceValues:
    route: Route
    own: MutableMapping[str, Tensor]
    """By key, what the reference computes from what the backend under test gave."""
    chained: MutableMapping[str, Tensor]
    """By node, what it computes from the inputs of the graph."""
    most_bytes: float
    """How many bytes of values may be held at once."""
    pair: CompiledPair | None = None
    """What the reference made of the graph, if that is known from an earlier run."""

    def compute(self, plan: GraphPlan, computing: Computing) -> None:
        graph = plan.graph
        self.pair = self.pair or compile_pair(self.route, graph, plan.steps, self.most_bytes)
        run = run_pair(self.pair, graph, plan.steps, self.chained)
        places = {node: place for place, node in enumerate(outputs_of(graph))}
        for key, node in zip(plan.scope.keys, plan.scope.outputs, strict=True):
            if run.outputs is not None:
                self.own[key] = run.outputs[places[node]].detach()
        for pieces in _in_groups(_pieces(plan, computing), self.most_bytes):
            cut = _Cut(plan, computing, pieces)
            compiled = self.route.compile(cut.module(), cut.inputs, graph.stage)
            for key, value in zip(cut.keys, compiled.run(cut.inputs), strict=True):
                self.own[key] = value.detach()


@dataclass(frozen=True)
class _Piece:
    """Operations that are computed in a row, from what the backend under test gave: a single one, or a module's."""

    steps: Sequence[Step]
    outputs: Sequence[torch.fx.Node]
    keys: Sequence[str]

    @property
    def reads(self) -> list[torch.fx.Node]:
        own = {value for step in self.steps for value in step.values}
        read = dict.fromkeys(node for step in self.steps for node in step.node.all_input_nodes)
        return [node for node in read if node.op != "get_attr" and node not in own]


def _pieces(plan: GraphPlan, computing: Computing) -> Iterator[_Piece]:
    """Every operation and every module that the backend under test gave all operands of."""
    known = computing.inputs.keys() | computing.values.keys() | computing.plain.keys()
    steps = [_Piece([step], step.values, plan.keys(step)) for step in plan.steps if step.left_out is None]
    parts = [
        _Piece([step for step in part.steps if step.left_out is None], part.outputs, part.keys)
        for part in plan.parts.values()
        if part.outputs
    ]
    yield from (piece for piece in (*steps, *parts) if {node.name for node in piece.reads} <= known)


def _in_groups(pieces: Iterable[_Piece], most_bytes: float) -> Iterator[list[_Piece]]:
    group: list[_Piece] = []
    held = 0
    for piece in pieces:
        size = sum(bytes_of(node) for node in piece.outputs)
        if group and held + size > most_bytes:
            yield group
            group, held = [], 0
        group.append(piece)
        held += size
    if group:
        yield group


class _Cut:
    """A graph in which operations read the values that the backend gave, and not those of other operations."""

    def __init__(self, plan: GraphPlan, computing: Computing, pieces: Sequence[_Piece]) -> None:
        self.plan, self.computing, self.pieces = plan, computing, pieces
        self.graph = torch.fx.Graph()
        self.keys: list[str] = []
        self.inputs: list[Any] = []
        self.given: dict[str, torch.fx.Node] = {}
        self.results: list[torch.fx.Node] = []

    def module(self) -> torch.fx.GraphModule:
        self._add_inputs()
        for piece in self.pieces:
            known: dict[str, torch.fx.Node] = {}
            for step in piece.steps:
                known |= self._copied(step, known)
            self.keys += piece.keys
            self.results += [known[node.name] for node in piece.outputs]
        self.graph.output(tuple(self.results))
        return torch.fx.GraphModule(self.plan.graph.module, self.graph)

    def _add_inputs(self) -> None:
        read = dict.fromkeys(node for piece in self.pieces for node in piece.reads)
        for node in read:
            if isinstance(value := self.computing.given(node), Tensor):
                self.given[node.name] = placed = self.graph.placeholder(f"given_{node.name}")
                placed.meta = dict(node.meta)
                self.inputs.append(value)

    def _copied(self, step: Step, known: Mapping[str, torch.fx.Node]) -> dict[str, torch.fx.Node]:
        """The nodes of a step's values in the new graph; `known` are nodes that it reads there."""

        def source(node: torch.fx.Node) -> Any:
            if node.name in known:
                return known[node.name]
            if node.op == "get_attr":
                return self.graph.get_attr(str(node.target))
            return self.given.get(node.name) or self.computing.plain[node.name]

        args, kwargs = (torch.fx.node.map_arg(one, source) for one in (step.node.args, step.node.kwargs))
        made = self.graph.call_function(step.node.target, args, kwargs)  # type: ignore[arg-type]
        made.meta = dict(step.node.meta)
        if step.values == (step.node,):
            return {step.node.name: made}
        parts = {}
        for value in step.values:
            parts[value.name] = part = self.graph.call_function(value.target, (made, value.args[1]))  # type: ignore[arg-type]
            part.meta = dict(value.meta)
        return parts
