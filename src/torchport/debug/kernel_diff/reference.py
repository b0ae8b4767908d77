"""Another backend than eager PyTorch as the reference: what it computes from the values of the backend under test.

One compilation has every operation by itself, each reading the values that the backend under test gave, and the
operations of every module in a row. So the reference is given the same inputs at each place as the backend was.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.debug.kernel_diff.candidate import CompiledPair, compile_pair, run_pair
from torchport.debug.kernel_diff.computing import Computing
from torchport.debug.kernel_diff.planning import GraphPlan
from torchport.debug.kernel_diff.route import Route
from torchport.debug.kernel_diff.steps import Step, outputs_of


@dataclass
class ReferenceValues:
    route: Route
    own: MutableMapping[str, Tensor]
    """By key, what the reference computes from what the backend under test gave."""
    chained: MutableMapping[str, Tensor]
    """By node, what it computes from the inputs of the graph."""
    pair: CompiledPair | None = None
    """What the reference made of the graph, if that is known from an earlier run."""

    def compute(self, plan: GraphPlan, computing: Computing) -> None:
        graph = plan.graph
        self.pair = self.pair or compile_pair(self.route, graph, plan.steps)
        run = run_pair(self.pair, graph, plan.steps, self.chained)
        places = {node: place for place, node in enumerate(outputs_of(graph))}
        for key, node in zip(plan.scope.keys, plan.scope.outputs, strict=True):
            if run.outputs is not None:
                self.own[key] = run.outputs[places[node]].detach()
        cut = _Cut(plan, computing)
        compiled = self.route.compile(cut.module(), cut.inputs, graph.stage)
        for key, value in zip(cut.keys, compiled.run(cut.inputs), strict=True):
            self.own[key] = value.detach()


class _Cut:
    """A graph in which operations read the values that the backend gave, and not those of other operations."""

    def __init__(self, plan: GraphPlan, computing: Computing) -> None:
        self.plan, self.computing = plan, computing
        self.graph = torch.fx.Graph()
        self.keys: list[str] = []
        self.inputs: list[Any] = []
        self.given: dict[str, torch.fx.Node] = {}
        self.results: list[torch.fx.Node] = []

    def module(self) -> torch.fx.GraphModule:
        self._add_inputs()
        for step in self.plan.steps:
            if step.left_out is None and self._is_computable([step]):
                known = self._copied(step, {})
                self._give(self.plan.keys(step), [known[value.name] for value in step.values])
        for part in self.plan.parts.values():
            steps = [step for step in part.steps if step.left_out is None]
            if part.outputs and self._is_computable(steps):
                known = {}
                for step in steps:
                    known |= self._copied(step, known)
                self._give(part.keys, [known[node.name] for node in part.outputs])
        self.graph.output(tuple(self.results))
        return torch.fx.GraphModule(self.plan.graph.module, self.graph)

    def _add_inputs(self) -> None:
        placeholders = [node for node in self.plan.graph.module.graph.nodes if node.op == "placeholder"]
        values = [value for step in self.plan.steps for value in step.values]
        for node in [*placeholders, *(value for value in values if value.name in self.computing.values)]:
            self.given[node.name] = placed = self.graph.placeholder(f"given_{node.name}")
            placed.meta = dict(node.meta)
            self.inputs.append(self.computing.given(node))

    def _is_computable(self, steps: Sequence[Step]) -> bool:
        own = {value.name for step in steps for value in step.values}
        read = {node.name for step in steps for node in step.node.all_input_nodes if node.op != "get_attr"}
        return read - own <= self.given.keys() | self.computing.plain.keys()

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

    def _give(self, keys: Sequence[str], nodes: Sequence[torch.fx.Node]) -> None:
        self.keys += keys
        self.results += nodes
