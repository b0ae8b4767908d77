"""What is known of each node of an fx graph, be it Dynamo's or AOTAutograd's: operation, tensors, module and line."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.capture import source
from torchport.capture.torch_internals import OpOverload, pytree


@dataclass(frozen=True)
class TensorFacts:
    """A tensor of a graph. Free sizes have the value of the example."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...]
    device: str
    bytes: int
    """What its storage takes."""
    has_free_sizes: bool = False

    @property
    def elements(self) -> int:
        return torch.Size(self.shape).numel()


@dataclass(frozen=True)
class GraphNode:
    name: str
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


def read_nodes(module: torch.fx.GraphModule) -> list[GraphNode]:
    """All nodes of a graph, in order."""
    return [read_node(node, module) for node in module.graph.nodes]


def read_node(node: torch.fx.Node, owner: torch.fx.GraphModule) -> GraphNode:
    path, kind = module_of(node)
    return GraphNode(
        name=node.name,
        op=full_name(node, owner),
        kind=node.op,
        inputs=tuple(one.name for one in node.all_input_nodes),
        tensors=tuple(facts_of(tensor) for tensor in tensors_of(node)),
        module=path,
        module_type=kind,
        source=line_of(node),
    )


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
    known = torch.overrides.resolve_name(target)  # type: ignore[no-untyped-call]
    if known is not None:
        return str(known)
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', target)}".lstrip("_.")


def tensors_of(node: torch.fx.Node) -> list[Tensor]:
    """The fake tensors that stand for what a node gives."""
    value = node.meta.get("val", node.meta.get("example_value"))
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def facts_of(tensor: Tensor) -> TensorFacts:
    sizes = [*tensor.shape, *(tensor.stride() if tensor.layout is torch.strided else ())]
    return TensorFacts(
        shape=tuple(_number(size) for size in tensor.shape),
        dtype=tensor.dtype,
        stride=tuple(_number(size) for size in tensor.stride()) if tensor.layout is torch.strided else (),
        device=str(tensor.device),
        bytes=torch.Size(_number(size) for size in tensor.shape).numel() * tensor.element_size(),
        has_free_sizes=any(isinstance(size, torch.SymInt) for size in sizes),
    )


def _number(size: Any) -> int:
    """A size, or the example's if it is free; 0 if that depends on data and so has no example."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    hint = size.node.hint
    return 0 if hint is None else int(hint)


def module_of(node: torch.fx.Node) -> tuple[str, str]:
    """Path and class of the innermost module that a node belongs to; in a backward graph, the forward's."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return "", ""
    path, kind = list(stack.values())[-1]
    return clean_path(str(path)), kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"


def clean_path(path: str) -> str:
    """The path of a module in the model, from how Dynamo writes it: `L['self'].layer1[0].conv` is `layer1.0.conv`."""
    for prefix in ("L['self']", "L['fn']", "L__self__", "self"):
        if path == prefix or path.startswith((f"{prefix}.", f"{prefix}[")):
            path = path.removeprefix(prefix)
            break
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
