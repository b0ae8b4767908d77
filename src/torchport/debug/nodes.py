"""What is known of each node of an fx graph, be it Dynamo's or AOTAutograd's: operation, tensors, module and line."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.capture import source
from torchport.capture.torch_internals import HigherOrderOperator, OpOverload, pytree
from torchport.debug.facts import Sizes, TensorFacts, facts_of
from torchport.debug.storages import Storages

__all__ = [
    "GraphNode",
    "TensorFacts",
    "clean_path",
    "facts_of",
    "full_name",
    "line_of",
    "module_of",
    "read_node",
    "read_nodes",
    "tensors_of",
]


@dataclass(frozen=True)
class GraphNode:
    name: str
    """As in the graph; a node of a branch or loop body has the name of that subgraph in front: `true_graph_0.sin`."""
    op: str
    """The full name: `aten.convolution.default`, `torch.nn.functional.conv2d`, `operator.add`, or the fx op itself for
    inputs, attributes and outputs."""
    kind: str
    """The fx op: placeholder, get_attr, call_function, call_method, call_module or output."""
    inputs: tuple[str, ...]
    """The names of the nodes that it reads."""
    tensors: tuple[TensorFacts, ...]
    """What it gives; empty if that is no tensor, or not known."""
    module: str
    """The path of the innermost module of the model that it belongs to; "" for the model itself."""
    module_type: str
    source: str | None
    """The user's line, `file:line`."""
    known_as: tuple[str, ...] = ()
    """Other full names of what it calls, such as the ATen operations that a function of Dynamo's graph calls."""

    @property
    def code(self) -> str:
        """The text of the user's line; "" if it is not to be had."""
        if self.source is None:
            return ""
        file, _, line = self.source.rpartition(":")
        return linecache.getline(file, int(line)).strip()

    @property
    def place(self) -> str:
        """Node, module and line, as an error names them."""
        inside = f" in {self.module}" if self.module else ""
        at = f" at {self.source}" if self.source else ""
        return f"{self.name}{inside}{at}"


def read_nodes(
    module: torch.fx.GraphModule, *, nested: bool = False, sizes: Sizes | None = None
) -> list[GraphNode]:
    """All nodes of a graph, in order.

    With `nested`, the nodes of a branch or loop body stand before the node that calls it. `sizes` has values for free
    sizes, in place of the example's.
    """
    return list(_Reading(nested, sizes or {}).nodes_of(module, ""))


def read_node(node: torch.fx.Node, owner: torch.fx.GraphModule) -> GraphNode:
    return _Reading(False, {}).read(node, owner, "")


@dataclass
class _Reading:
    """One pass over a graph and the graphs within it."""

    nested: bool
    sizes: Sizes
    storages: Storages = field(default_factory=Storages)

    def nodes_of(self, module: torch.fx.GraphModule, prefix: str) -> Iterator[GraphNode]:
        entered: set[str] = set()
        for node in module.graph.nodes:
            inner = subgraphs_of(node, module) if self.nested else {}
            for name, graph in inner.items():
                if name not in entered:
                    entered.add(name)
                    yield from self.nodes_of(graph, f"{prefix}{name}.")
            yield self.read(node, module, prefix)

    def read(self, node: torch.fx.Node, owner: torch.fx.GraphModule, prefix: str) -> GraphNode:
        path, kind = module_of(node)
        tensors = tensors_of(node)
        numbers = self.storages.numbers_of(node, tensors)
        return GraphNode(
            name=f"{prefix}{node.name}",
            op=full_name(node, owner),
            kind=node.op,
            inputs=tuple(f"{prefix}{one.name}" for one in node.all_input_nodes),
            tensors=tuple(facts_of(tensor, self.sizes, number) for tensor, number in zip(tensors, numbers)),
            module=path,
            module_type=kind,
            source=line_of(node),
        )


def subgraphs_of(node: torch.fx.Node, owner: torch.fx.GraphModule) -> Mapping[str, torch.fx.GraphModule]:
    """The graphs that a node calls, such as the branches of torch.cond, by their names."""
    attributes = [one for one in node.all_input_nodes if one.op == "get_attr"]
    held = {one.name: getattr(owner, str(one.target), None) for one in attributes}
    return {name: graph for name, graph in held.items() if isinstance(graph, torch.fx.GraphModule)}


def full_name(node: torch.fx.Node, owner: torch.fx.GraphModule) -> str:
    """The full name of what a node calls; the fx op for a node that calls nothing."""
    target: Any = node.target
    if node.op == "call_module":
        called = type(owner.get_submodule(target))
        return f"{called.__module__}.{called.__qualname__}"
    if node.op == "call_method":
        return f"torch.Tensor.{target}"
    if node.op != "call_function":
        return node.op
    if isinstance(target, OpOverload):
        return str(target)
    if isinstance(target, HigherOrderOperator):
        return f"higher_order.{target._name}"
    known = torch.overrides.resolve_name(target)  # type: ignore[no-untyped-call]
    if known is not None:
        return str(known)
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', target)}".lstrip("_.")


def tensors_of(node: torch.fx.Node) -> list[Tensor]:
    """The fake tensors that stand for what a node gives."""
    value = node.meta.get("val", node.meta.get("example_value"))
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def module_of(node: torch.fx.Node) -> tuple[str, str]:
    """Path and class of the innermost module that a node belongs to; in a backward graph, the forward's."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return "", ""
    path, kind = list(stack.values())[-1]
    return clean_path(str(path)), kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


_ROOT = re.compile(r"(?:[LG]\['\w+'\]|L__self__|self)(?=$|[.\[])")
"""How a path of Dynamo's begins: the variable that holds the model."""


def clean_path(path: str) -> str:
    """The path of a module in the model, from how Dynamo writes it: `L['self'].layer1[0].conv` is `layer1.0.conv`."""
    path = _ROOT.sub("", path, count=1) if _ROOT.match(path) else path
    parts: Iterator[str] = (
        part.strip("'\"") for part in path.replace("]", "").replace("[", ".").split(".") if part
    )
    return ".".join(part for part in parts if part not in ("_modules", "_orig_mod"))


def line_of(node: torch.fx.Node) -> str | None:
    """The innermost line of the user's code that a node came from; torch's own if there is no other."""
    frames = source.frames(node.meta.get("stack_trace"))
    own = [f"{file}:{line}" for file, line in frames if not source.is_of_torch(f"{file}:{line}")]
    if own:
        return own[-1]
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else None


def copy_of(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same graph with nodes of its own; what it holds is shared."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(module.graph, {}))
    return torch.fx.GraphModule(module, graph)
