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

from torchport.capture import source
from torchport.debug.nodes import GraphNode
from torchport.errors import CompileError

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

    @property
    def fact(self) -> tuple[str, str, str, str | None]:
        """What it says, whatever graph it is of: a graph of Dynamo's and the ATen graphs of it repeat each other."""
        return self.constraint, self.message, self.module, self.source


def distinct(violations: Iterable[Violation]) -> list[Violation]:
    """The violations without those that only repeat what an earlier one says."""
    first: dict[object, Violation] = {}
    for violation in violations:
        first.setdefault(violation.fact, violation)
    return list(first.values())


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
    needs_whole_operations: bool = False
    """Whether nodes of Dynamo's graphs are to say in `known_as` which ATen operations they call, none broken down."""

    @abstractmethod
    def check(self, graph: CheckedGraph) -> Iterable[Found]:
        """What in a graph breaks the rule."""

    def violated_by(self, node: GraphNode, message: str, *, fix: str | None = None) -> Found:
        return Found(node, message, fix)


def check_graph(graph: CheckedGraph, constraints: Iterable[Constraint]) -> list[Violation]:
    """All violations in a graph, in the order of its nodes. A CompileError names a constraint that itself fails."""
    order = {node.name: index for index, node in enumerate(graph.nodes)}
    found = [
        _violation(graph, constraint, one)
        for constraint in constraints
        if graph.stage in constraint.stages
        for one in _found_by(constraint, graph)
    ]
    return sorted(found, key=lambda violation: order.get(violation.node, len(order)))


def _found_by(constraint: Constraint, graph: CheckedGraph) -> list[Found]:
    kind = f"{type(constraint).__module__}.{type(constraint).__qualname__}"
    try:
        found = list(constraint.check(graph) or ())
    except Exception as error:
        message = (
            f"the constraint {kind} raised {type(error).__name__} on {graph.name} ({graph.stage}): {error}"
        )
        raise CompileError("TP1006", message, where=source.user_line(error)) from error
    for one in found:
        if not isinstance(one, Found):
            message = f"the constraint {kind} gave {one!r}, which is not what self.violated_by gives"
            raise CompileError("TP1006", message, where=source.definition(type(constraint)))
    return found


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
