"""Which ATen operations each node of a graph of Dynamo's calls, before any of them is broken down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

import torch

from torchport.capture.torch_internals import HigherOrderOperator, trace_to_aten
from torchport.debug.internals.needs import Need

NEEDS = (
    Need(
        "traces",
        "torch.fx.experimental.proxy_tensor",
        "get_proxy_mode",
        "denying composite operations such as aten.conv2d",
    ),
)


@dataclass
class AtenCalls:
    of_nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The full names of the operations; nodes of a body that another node runs are named `body.node`."""
    unknown: dict[str, str] = field(default_factory=dict)
    """Nodes that could not be traced, and why."""


def aten_calls(module: torch.fx.GraphModule) -> AtenCalls:
    """What each node calls. The body of a branch, loop or checkpoint is traced by itself."""
    calls = AtenCalls()
    _trace(module, calls, "")
    return calls


def _trace(module: torch.fx.GraphModule, calls: AtenCalls, prefix: str) -> None:
    inputs = [node.meta.get("example_value") for node in module.graph.nodes if node.op == "placeholder"]
    try:
        trace_to_aten(
            module, inputs, pre_dispatch=True, interpreter=lambda graph: _Noting(graph, calls, prefix)
        )
    except Exception as error:
        calls.unknown[prefix.removesuffix(".") or "its nodes"] = _first_line(error)
    for node in module.graph.nodes:
        body = getattr(module, str(node.target), None) if node.op == "get_attr" else None
        if isinstance(body, torch.fx.GraphModule):
            _trace(body, calls, f"{prefix}{node.name}.")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


class _Noting(torch.fx.Interpreter):
    """Runs a graph within a trace, and notes what each node adds to it. A node that fails has its example's value."""

    def __init__(self, module: torch.fx.GraphModule, calls: AtenCalls, prefix: str) -> None:
        super().__init__(module)
        self.calls, self.prefix = calls, prefix
        self.extra_traceback = False

    def run_node(self, n: torch.fx.Node) -> Any:
        if isinstance(n.target, HigherOrderOperator) and "example_value" in n.meta:
            return n.meta["example_value"]
        last = next(_traced_backwards(), None)
        try:
            return super().run_node(n)
        except Exception as error:
            return self._without(n, error)
        finally:
            added = takewhile(lambda node: node is not last, _traced_backwards())
            names = [str(node.target) for node in added if node.op == "call_function"]
            if n.op.startswith("call_"):
                self.calls.of_nodes[f"{self.prefix}{n.name}"] = tuple(dict.fromkeys(reversed(names)))

    def _without(self, n: torch.fx.Node, error: Exception) -> Any:
        """What stands for a node that cannot be traced: its example's value, as a plain number if it is one."""
        example = n.meta.get("example_value")
        if isinstance(example, torch.SymInt | torch.SymFloat):
            return 2 if example.node.hint is None else example.node.hint
        self.calls.unknown[f"{self.prefix}{n.name}"] = _first_line(error)
        return example


def _traced_backwards() -> Iterator[torch.fx.Node]:
    """The nodes of the trace that is being made, the newest first."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    mode: Any = get_proxy_mode()
    return iter(()) if mode is None else iter(reversed(mode.tracer.graph.nodes))
