"""What a captured graph computes in a class of arithmetic, from golden inputs, and from end to end in float64."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from torchport.arithmetic.classes import Arithmetic
from torchport.arithmetic.emulation import Emulated
from torchport.capture import graph as g
from torchport.capture.interpret import Interpreter
from torchport.capture.plan import Plan
from torchport.trace.plan import operation_of


def emulated_values(
    graph: g.Graph,
    weights: Mapping[str, torch.Tensor],
    plan: Plan,
    golden: Callable[[str], torch.Tensor],
    arithmetic: Arithmetic,
    calls: Collection[str],
) -> dict[str, torch.Tensor]:
    """By key, the value that each of some calls computes; golden values are handed on.

    Nothing if the graph has operations that are not known.
    """
    if _has_unknown(graph):
        return {}
    found: dict[str, torch.Tensor] = {}

    def put_back(key: str, value: torch.Tensor) -> torch.Tensor:
        found[key] = value
        return golden(plan.resolve(key))

    inputs = [golden(plan.resolve(key)) for key in plan.calls[plan.root].inputs]
    _EmulatedRun(arithmetic, calls, graph, weights, plan, put_back).run(inputs)
    return found


def wide_outputs(
    graph: g.Graph, weights: Mapping[str, torch.Tensor], plan: Plan, golden: Callable[[str], torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The outputs of the whole graph in float64, by key; nothing if it has operations that are not known."""
    if _has_unknown(graph):
        return {}
    root = plan.calls[plan.root]
    inputs = [golden(plan.resolve(key)) for key in root.inputs]

    def drawn(key: str, value: torch.Tensor) -> torch.Tensor:
        """Goes on with the numbers that the model drew: in float64 it would draw others."""
        return value if operation_of(key) is None else golden(key)

    outputs = Interpreter(graph, weights, plan, drawn, truth=True).run(inputs)
    return dict(zip(root.outputs, outputs, strict=True))


def _has_unknown(graph: g.Graph) -> bool:
    return any(node.op == g.UNKNOWN for module in graph.modules.values() for node in module.nodes)


class _EmulatedRun(Interpreter):
    """Operations of some calls are computed in a class of arithmetic, all others as they are."""

    def __init__(self, arithmetic: Arithmetic, calls: Collection[str], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.arithmetic, self.emulated = arithmetic, calls
        self.decides_itself = False

    def apply(self, node: g.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.inside[-1] not in self.emulated:
            return super().apply(node, args, kwargs)
        with Emulated(self.arithmetic):
            return super().apply(node, args, kwargs)
