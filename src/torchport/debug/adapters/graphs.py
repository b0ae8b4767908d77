"""How an adapter runs a graph of ATen operations node by node, and what its results are held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torchport.capture.torch_internals import HigherOrderOperator, OpOverload, pytree
from torchport.errors import CompileError

RunNode = Callable[[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]], Any]


class NodeByNode:
    """A graph as a function. Each ATen operation is run by `run_node`, also those in graphs that control flow runs."""

    def __init__(self, graph: torch.fx.GraphModule, run_node: RunNode) -> None:
        self.graph = graph
        self.run_node = run_node

    def __call__(self, *inputs: Any) -> Any:
        return _Interpreter(self.graph, self.run_node).run(*inputs)


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, graph: torch.fx.GraphModule, run_node: RunNode) -> None:
        super().__init__(graph)
        self._run = run_node

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, OpOverload):
            return self._run(target, args, kwargs)
        if isinstance(target, HigherOrderOperator):
            args, kwargs = pytree.tree_map_only(torch.fx.GraphModule, self._as_function, (args, kwargs))
            return target(*args, **kwargs)
        return super().call_function(target, args, kwargs)

    def _as_function(self, graph: torch.fx.GraphModule) -> NodeByNode:
        return NodeByNode(graph, self._run)


def with_results_checked(
    graph: torch.fx.GraphModule, compiled: Callable[..., Any], name: str
) -> Callable[..., tuple[Any, ...]]:
    """`compiled`, which raises if it gives something else than what the graph gives by count, shape or dtype."""
    wanted = [node.meta.get("val") if isinstance(node, torch.fx.Node) else node for node in _outputs(graph)]

    def run(*inputs: Any) -> tuple[Any, ...]:
        given = compiled(*inputs)
        if not isinstance(given, Sequence) or len(given) != len(wanted):
            count = f"{len(given)} values" if isinstance(given, Sequence) else type(given).__name__
            raise CompileError(
                "TP1053", f"{name} gives {count} for a graph that gives a sequence of {len(wanted)}"
            )
        for place, (value, fake) in enumerate(zip(given, wanted)):
            if wrong := _unlike(value, fake):
                raise CompileError("TP1053", f"{name} gives {wrong} as output {place} of a graph")
        return tuple(given)

    return run


def _outputs(graph: torch.fx.GraphModule) -> list[Any]:
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    given = output.args[0]
    return list(given) if isinstance(given, list | tuple) else [given]


def _unlike(value: Any, fake: Any) -> str | None:
    """How a value differs from the tensor that the graph has in its place; sizes that are free fit anything."""
    if not isinstance(fake, Tensor):
        return None
    if not isinstance(value, Tensor):
        return f"{type(value).__name__}, not a tensor,"
    fits = value.ndim == fake.ndim and all(
        isinstance(wanted, torch.SymInt) or size == wanted for size, wanted in zip(value.shape, fake.shape)
    )
    if fits and value.dtype == fake.dtype and value.device == fake.device:
        return None
    return f"{_described(value)}, not {_described(fake)},"


def _described(tensor: Tensor) -> str:
    sizes = ", ".join(map(str, tensor.shape))
    return f"{str(tensor.dtype).removeprefix('torch.')} [{sizes}] on {tensor.device}"
