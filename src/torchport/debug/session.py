"""What a debugging run gathers while models are compiled: graphs, violations, breaks, and where artifacts go."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from torchport.debug import graph_files
from torchport.debug.constraints.base import (
    CheckedGraph,
    Constraint,
    Stage,
    Violation,
    check_graph,
    distinct,
)
from torchport.debug.facts import Sizes
from torchport.debug.internals.aten_calls import aten_calls
from torchport.debug.internals.breaks_seen import SeenBreak
from torchport.debug.nodes import GraphNode, read_nodes
from torchport.debug.places import with_places_of_inputs
from torchport.debug.tree import ArtifactTree
from torchport.errors import CompileError
from torchport.events import Say
from torchport.explain.repro import counted

_STAGES = {"dynamo": "Dynamo's graph", "forward": "forward graph", "backward": "backward graph"}


@dataclass
class Session:
    """Any number of threads may compile at a time: what each finds is added under a lock."""

    constraints: Sequence[Constraint] = ()
    tree: ArtifactTree | None = None
    graphs: list[CheckedGraph] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    """Of every graph. One of Dynamo's and the ATen graphs of it may say the same twice: see `distinct_violations`."""
    faults: list[CompileError] = field(default_factory=list)
    """What could not be checked, and why: constraints that failed themselves, ATen graphs that could not be made."""
    breaks: list[SeenBreak] = field(default_factory=list)
    """Where graphs ended early, as far as backends see it: what runs there is in no graph."""
    say: Say = field(default=lambda text: None, repr=False)
    """Is told of every graph that is about to be checked and compiled."""
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _count: int = 0

    def next_name(self) -> str:
        """The name of the next graph that Dynamo hands over."""
        with self._lock:
            name = f"graph_{self._count}"
            self._count += 1
        return name

    def forget(self, name: str) -> None:
        """Drops what was found in a graph that Dynamo gave up to make it anew."""
        with self._lock:
            self.graphs = [graph for graph in self.graphs if graph.name != name]
            self.violations = [violation for violation in self.violations if violation.graph != name]

    @property
    def distinct_violations(self) -> list[Violation]:
        """The violations, those that only repeat one of another stage or graph left out."""
        with self._lock:
            return distinct(self.violations)

    def graph(self, name: str, stage: Stage) -> CheckedGraph | None:
        with self._lock:
            found = (graph for graph in self.graphs if (graph.name, graph.stage) == (name, stage))
            return next(found, None)

    def read(
        self,
        name: str,
        stage: Stage,
        module: torch.fx.GraphModule,
        constraints: Sequence[Constraint],
        sizes: Sizes | None = None,
    ) -> tuple[CheckedGraph, list[CompileError]]:
        """Keeps a graph, and gives it as these constraints need it, with what of that could not be found out."""
        faults: list[CompileError] = []
        nodes: Sequence[GraphNode] = read_nodes(module, nested=True, sizes=sizes)
        if stage == "dynamo" and any(rule.needs_whole_operations for rule in constraints):
            nodes, faults = self._with_whole_operations(name, module, nodes)
        if stage in ("forward", "backward", "joint"):
            nodes = with_places_of_inputs(nodes, module, self.graph(name, "dynamo"))
        graph = CheckedGraph(name, stage, tuple(nodes))
        if self.graph(name, stage) is None:
            size = counted(sum(1 for _ in graph.operations), "operation")
            self.say(f"{name}: {_STAGES.get(stage, stage)} of {size}")
        self.keep(graph)
        return graph, faults

    def find(
        self, graph: CheckedGraph, constraints: Sequence[Constraint]
    ) -> tuple[list[Violation], list[CompileError]]:
        """What in a graph breaks a constraint, and which constraints failed themselves. Both are kept."""
        found: list[Violation] = []
        faults: list[CompileError] = []
        for rule in constraints:
            try:
                found.extend(check_graph(graph, [rule]))
            except CompileError as fault:
                faults.append(self.add_fault(fault))
        order = {node.name: index for index, node in enumerate(graph.nodes)}
        found.sort(key=lambda violation: order.get(violation.node, len(order)))
        with self._lock:
            known = set(self.violations)
            self.violations.extend(violation for violation in found if violation not in known)
        return found, faults

    def keep(self, graph: CheckedGraph) -> None:
        """Keeps a graph. Of one that is kept already, nodes that it does not have are added."""
        with self._lock:
            before = self.graph(graph.name, graph.stage)
            if before is None:
                self.graphs.append(graph)
                return
            names = {node.name for node in before.nodes}
            added = tuple(node for node in graph.nodes if node.name not in names)
            self.graphs[self.graphs.index(before)] = replace(before, nodes=before.nodes + added)

    def add_fault(self, fault: CompileError) -> CompileError:
        """Keeps a fault, unless one like it is kept already."""
        with self._lock:
            if str(fault) not in map(str, self.faults):
                self.faults.append(fault)
        return fault

    def add_break(self, found: SeenBreak) -> bool:
        """Keeps a break, and says whether it is a new one."""
        with self._lock:
            if any(found.frame == one.frame or found.place in (one.place, one.frame) for one in self.breaks):
                return False
            self.breaks.append(found)
            breaks = list(self.breaks)
        if self.tree is not None:
            graph_files.write_breaks(self.tree, breaks)
        return True

    def _with_whole_operations(
        self, name: str, module: torch.fx.GraphModule, nodes: Sequence[GraphNode]
    ) -> tuple[Sequence[GraphNode], list[CompileError]]:
        """The nodes with the ATen operations that each calls, and what of these could not be found out."""
        calls = aten_calls(module)
        problems = [
            f"the ATen operations of {node} in {name} are not known: {why}"
            for node, why in calls.unknown.items()
        ]
        faults = [self.add_fault(CompileError("TP1007", problem)) for problem in problems]
        return [replace(node, known_as=calls.of_nodes.get(node.name, ())) for node in nodes], faults
