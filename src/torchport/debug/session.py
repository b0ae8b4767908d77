"""What a debugging run gathers while models are compiled: graphs, violations, breaks, and where artifacts go."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from torchport.debug.constraints.base import CheckedGraph, Constraint, Stage, Violation, check_graph
from torchport.debug.nodes import read_nodes
from torchport.debug.tree import ArtifactTree


@dataclass
class Session:
    """Any number of threads may compile at a time: what each finds is added under a lock."""

    constraints: Sequence[Constraint] = ()
    tree: ArtifactTree | None = None
    graphs: list[CheckedGraph] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _count: int = 0

    def next_name(self) -> str:
        """The name of the next graph that Dynamo hands over."""
        with self._lock:
            name = f"graph_{self._count}"
            self._count += 1
        return name

    def add(
        self, name: str, stage: Stage, module: torch.fx.GraphModule
    ) -> tuple[CheckedGraph, list[Violation]]:
        """Keeps a graph, and gives it with what in it breaks a constraint."""
        graph = CheckedGraph(name, stage, tuple(read_nodes(module)))
        found = check_graph(graph, self.constraints)
        with self._lock:
            self.graphs.append(graph)
            self.violations.extend(found)
        return graph, found
