"""Runs a graph with torch and notes all that is computed: the value at each trace key, and each operation.

Some operations can be given another result than torch computes, so that the rest of the graph runs on with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture.interpret import Interpreter
from torchport.capture.plan import Plan

CANNOT_COMPUTE = (RuntimeError, IndexError, ValueError, TypeError)
"""The exceptions that torch raises if shapes, types or numbers do not fit an operation."""


@dataclass(frozen=True)
class AppliedOperation:
    """An operation as it was called, and what it returned."""

    node: g.Node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


class NotedRun(Interpreter):
    """One run of a graph. `replaced` has the results, by the names of nodes, that stand in for computed ones."""

    def __init__(
        self,
        graph: g.Graph,
        weights: Mapping[str, torch.Tensor],
        plan: Plan,
        *,
        truth: bool = False,
        replaced: Mapping[str, Any] | None = None,
    ):
        super().__init__(graph, weights, plan, self._note, truth=truth)
        self.replaced = replaced or {}
        self.values: dict[str, torch.Tensor] = {}
        """By trace key: the inputs and outputs of each call."""
        self.applied: dict[str, AppliedOperation] = {}
        """By the name of the node, in the order of the run; without those that were replaced."""

    @property
    def results(self) -> dict[str, Any]:
        """What each operation returned, by the name of its node; without those that were replaced."""
        return {name: one.result for name, one in self.applied.items()}

    def _note(self, key: str, value: torch.Tensor) -> torch.Tensor:
        self.values[key] = value
        return value

    def apply(self, node: g.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if node.name in self.replaced:
            return self.replaced[node.name]
        result = super().apply(node, args, kwargs)
        self.applied[node.name] = AppliedOperation(node, args, kwargs, result)
        return result
