"""What a constraint is: a rule that the nodes of a graph are held against, such as what a piece of hardware can run.

class NoLargeSoftmax(Constraint):
    name = "softmax"

    def check(self, graph):
        for node in graph.nodes:
            if node.op == "aten._softmax.default" and node.tensors[0].shape[-1] > 4096:
                yield self.violated_by(node, "softmax over more than 4096 numbers", fix="split the rows")
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from torchport.debug.nodes import GraphNode

Stage = Literal["dynamo", "forward", "backward", "joint", "outside"]
"""Which graph it is: as Dynamo made it, after AOTAutograd, or operations that ran outside of any graph."""


@dataclass(frozen=True)
class CheckedGraph:
    """A graph as constraints see it."""

    name: str
    """`graph_0`, `graph_1`, … in the order of compilation."""
    stage: Stage
    nodes: tuple[GraphNode, ...]

    @property
    def operations(self) -> Iterator[GraphNode]:
        return (node for node in self.nodes if node.kind.startswith("call_"))


@dataclass(frozen=True)
class Violation:
    constraint: str
    message: str
    """What is wrong, with the numbers."""
    fix: str | None
    graph: str
    stage: Stage
    node: str
    op: str
    module: str
    source: str | None

    def __str__(self) -> str:
        inside = f" in {self.module}" if self.module else ""
        at = f" at {self.source}" if self.source else ""
        return f"{self.constraint}: {self.message} ({self.op}, node {self.node}{inside}{at})"


@dataclass(frozen=True)
class Found:
    """What a constraint finds: the node, and what is wrong with it."""

    node: GraphNode
    message: str
    fix: str | None = None


class Constraint(ABC):
    name: str
    """How reports call it."""
    stages: tuple[Stage, ...] = ("dynamo", "forward", "backward", "outside")
    """The graphs that it is checked on."""

    @abstractmethod
    def check(self, graph: CheckedGraph) -> Iterable[Found]:
        """What in a graph breaks the rule."""

    def violated_by(self, node: GraphNode, message: str, *, fix: str | None = None) -> Found:
        return Found(node, message, fix)


def check_graph(graph: CheckedGraph, constraints: Iterable[Constraint]) -> list[Violation]:
    """All violations in a graph, in the order of its nodes."""
    order = {node.name: index for index, node in enumerate(graph.nodes)}
    found = [
        _violation(graph, constraint, one)
        for constraint in constraints
        if graph.stage in constraint.stages
        for one in constraint.check(graph)
    ]
    return sorted(found, key=lambda violation: order.get(violation.node, len(order)))


def _violation(graph: CheckedGraph, constraint: Constraint, found: Found) -> Violation:
    node = found.node
    return Violation(
        constraint=constraint.name,
        message=found.message,
        fix=found.fix,
        graph=graph.name,
        stage=graph.stage,
        node=node.name,
        op=node.op,
        module=node.module,
        source=node.source,
    )
