"""Reads one node of an fx graph that runs other graphs: a branch, a loop, a scan or a map.

In: the node, and what its operands are called. Out: our own node, and its bodies, which are still to be read. A weight
that a body closes over is no operand: the body reads it itself, as any module does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import torch

from torchport.capture import graph as g
from torchport.capture.body_names import parameter_names
from torchport.capture.control_flow import CONTROL_FLOW, ControlFlow, operation_for
from torchport.capture.fx_nodes import line_of
from torchport.errors import CaptureError


@dataclass(frozen=True)
class FoundBody:
    """A graph that control flow runs."""

    key: str
    type: str
    module: torch.fx.GraphModule
    weights: Mapping[torch.fx.Node, str]
    """The placeholders that stand for weights, and the weights' names."""
    names: Mapping[torch.fx.Node, str]
    """What the user's source calls operands, by their placeholders."""


@dataclass(frozen=True)
class FlowReader:
    """What is known of the graph that a control-flow node is in."""

    module: torch.nn.Module
    refs: Mapping[torch.fx.Node, g.Ref]
    params: Mapping[str, str]
    """The weights that the graph reads: from the names of nodes to the weights' names."""

    def bodies(self, node: torch.fx.Node, key: str) -> list[FoundBody]:
        """The bodies of a node, which get keys below `key`."""
        kind = control_flow_of(node)
        _must_not_write(node, kind)
        graphs = [arg for arg in node.args if self._is_body(arg)]
        closed_over = node.args[-1]
        assert isinstance(closed_over, list | tuple)
        return [
            FoundBody(
                f"{key}.{role}",
                f"{kind.written}.{role}",
                body,
                self._weights(body, closed_over),
                self._names(node, kind, body),
            )
            for role, graph in zip(kind.roles, graphs, strict=True)
            if isinstance(body := getattr(self.module, str(graph.target)), torch.fx.GraphModule)
        ]

    def operands(self, node: torch.fx.Node) -> tuple[g.Arg, ...]:
        """The operands that are values: neither bodies nor weights that these read, nor sizes, which are known."""
        kind = control_flow_of(node)
        *given, closed_over = [arg for arg in node.args if not self._is_body(arg)]
        assert isinstance(closed_over, list | tuple)
        values = [self._values(arg, kind) for arg in given]
        return (*values, [self.refs[arg] for arg in closed_over if self._is_value(arg)])

    def _is_body(self, arg: Any) -> TypeGuard[torch.fx.Node]:
        return (
            isinstance(arg, torch.fx.Node)
            and arg.op == "get_attr"
            and isinstance(getattr(self.module, str(arg.target), None), torch.fx.GraphModule)
        )

    def _weights(self, body: torch.fx.GraphModule, closed_over: Sequence[Any]) -> dict[torch.fx.Node, str]:
        taken = [node for node in body.graph.nodes if node.op == "placeholder"]
        last = taken[len(taken) - len(closed_over) :]
        return {
            placeholder: self.params[self.refs[arg].name]
            for placeholder, arg in zip(last, closed_over, strict=True)
            if self._is_weight(arg)
        }

    def _names(
        self, node: torch.fx.Node, kind: ControlFlow, body: torch.fx.GraphModule
    ) -> dict[torch.fx.Node, str]:
        """The parameters of the user's function, if it takes the operands one by one as the body does.

        A branch takes its operands in an order of torch's own.
        """
        if kind.name == "cond":
            return {}
        given = [arg for arg in node.args if not self._is_body(arg)][:-1]
        count = sum(len(arg) for arg in given if isinstance(arg, list | tuple))
        names = parameter_names(line_of(node), kind.name, kind.roles.index("body"))
        expected = {"map": len(names) if count == 1 else 0, "associative_scan": 2 * count}
        if len(names) != expected.get(kind.name, count):
            return {}
        taken = [one for one in body.graph.nodes if one.op == "placeholder"]
        return dict(zip(taken, names, strict=False))

    def _is_weight(self, arg: Any) -> bool:
        return isinstance(arg, torch.fx.Node) and arg in self.refs and self.refs[arg].name in self.params

    def _is_value(self, arg: Any) -> TypeGuard[torch.fx.Node]:
        return isinstance(arg, torch.fx.Node) and arg in self.refs and not self._is_weight(arg)

    def _values(self, arg: Any, kind: ControlFlow) -> g.Arg:
        """A tensor, or tensors that change from step to step; CaptureError if there is a number among them."""
        if isinstance(arg, list | tuple):
            return [self._values(item, kind) for item in arg]
        if isinstance(arg, torch.fx.Node) and arg in self.refs:
            return self.refs[arg]
        raise CaptureError(
            "TP0202",
            f"{kind.written} is given a number or a size where only a tensor is supported",
            fix="give it a tensor, such as torch.tensor(0); decide by sizes with a plain `if`",
        )


def control_flow_of(node: torch.fx.Node) -> ControlFlow:
    op = operation_for(node.target)
    assert op is not None
    return CONTROL_FLOW[op]


def _must_not_write(node: torch.fx.Node, kind: ControlFlow) -> None:
    if any(node.kwargs.values()):
        raise CaptureError(
            "TP0202",
            f"a body of {kind.written} writes to its operands in place",
            fix="return the new value from the body instead",
        )
    results = node.meta.get("val")
    if not isinstance(results, list | tuple) or not all(isinstance(one, torch.Tensor) for one in results):
        raise CaptureError(
            "TP0202",
            f"{kind.written} gives something else than tensors",
            fix="return tensors from its bodies, such as torch.tensor(0) for a number",
        )
