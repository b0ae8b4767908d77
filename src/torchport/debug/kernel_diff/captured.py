"""The graphs that torch.compile makes of a model, as ATen operations, with the tensors that each was given."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from torchport.capture.torch_internals import without_modes
from torchport.debug.internals import observing

Stage = Literal["forward", "backward"]
ALIGNED = 64
"""Elements: a view that begins within memory is copied to a place that is as well aligned, and is not the beginning."""


@dataclass
class CapturedGraph:
    """One graph, and the inputs of its first run."""

    number: int
    stage: Stage
    module: torch.fx.GraphModule
    inputs: tuple[Any, ...] = ()
    names: tuple[str | None, ...] = ()
    """Of the weights and inputs of the model among the inputs, as far as they are known."""
    runs: int = 0

    @property
    def name(self) -> str:
        return f"graph {self.number} {self.stage}"

    @property
    def placeholders(self) -> list[torch.fx.Node]:
        return [node for node in self.module.graph.nodes if node.op == "placeholder"]


@dataclass
class Capturing:
    """A backend that runs graphs as eager PyTorch does, and keeps them in the order in which they first run."""

    decompositions: Mapping[Any, Any]
    copy_of: Callable[[Tensor], Tensor | None] = lambda tensor: None
    """A copy of a tensor that is there already and is not written to, if there is one."""
    name_of: Callable[[Tensor], str | None] = lambda tensor: None
    """The name of a weight or input of the model, if a tensor is one."""
    graphs: list[CapturedGraph] = field(default_factory=list)
    _count: int = 0

    def backend(self, module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        number = self._count
        self._count += 1
        forward, backward = self._compiler(number, "forward"), self._compiler(number, "backward")
        compile: Any = observing.aten_backend(forward, backward, self.decompositions)
        compiled: Callable[..., Any] = compile(module, inputs)
        return compiled

    def _compiler(self, number: int, stage: Stage) -> observing.Compile:
        def compile(module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
            with without_modes():
                graph = CapturedGraph(number, stage, without_dead_code(copy.deepcopy(module)))

            def run(*given: Any) -> Any:
                if graph.runs == 0:
                    graph.inputs = tuple(self._copied(one, graph) for one in given)
                    graph.names = tuple(
                        self.name_of(one) if isinstance(one, Tensor) else None for one in given
                    )
                    self.graphs.append(graph)
                graph.runs += 1
                return torch.fx.Interpreter(graph.module).run(*given)

            return run

        return compile

    def _copied(self, value: Any, graph: CapturedGraph) -> Any:
        may_share = isinstance(value, Tensor) and not any(map(_is_mutable, graph.module.graph.nodes))
        known = self.copy_of(value) if may_share else None
        return same_layout(value) if known is None else known


def without_dead_code(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph without operations that nothing reads, also such as draw random numbers."""
    for node in reversed(list(module.graph.nodes)):
        if node.op in ("call_function", "get_attr") and not node.users and not _is_mutable(node):
            module.graph.erase_node(node)
    module.recompile()
    return module


def _is_mutable(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and (schema is None or schema.is_mutable)


def same_layout(value: Any) -> Any:
    """A copy of a tensor with the same strides, not at the beginning of memory if it is not; anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    tensor = value.detach()
    if tensor.numel() == 0 or tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        return tensor.clone()
    start, strides = tensor.storage_offset(), tensor.stride()
    ahead = min(start, start % ALIGNED + ALIGNED)
    memory = torch.as_strided(tensor, (ahead + reach(tensor),), (1,), start - ahead).clone()
    return torch.as_strided(memory, tensor.shape, strides, ahead)


def reach(tensor: Tensor) -> int:
    """How many elements of memory a tensor that is not empty goes over."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def graphs_in_order(graphs: list[CapturedGraph]) -> Iterator[CapturedGraph]:
    """Forward graphs as they ran, then backward graphs as they ran."""
    yield from (graph for graph in graphs if graph.stage == "forward")
    yield from (graph for graph in graphs if graph.stage == "backward")
