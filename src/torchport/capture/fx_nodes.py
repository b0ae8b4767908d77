"""What nodes of fx graphs say: what a graph returns, whether a node is a number, and the user's line that it is of."""

from __future__ import annotations

from typing import Any

import torch

from torchport.capture import source
from torchport.capture.torch_internals import pytree


def output_leaves(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """What a module's graph returns, without None and plain numbers."""
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    leaves = pytree.tree_leaves(output.args[0], is_leaf=lambda x: x is None)
    return [leaf for leaf in leaves if isinstance(leaf, torch.fx.Node)]


def output_names(graph: torch.fx.Graph, structure: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A name for each output that is a tensor, as the path to it in `structure`; and those of the others."""
    paths, _ = pytree.tree_flatten_with_path(structure, is_leaf=lambda x: x is None)
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    leaves = pytree.tree_leaves(output.args[0], is_leaf=lambda x: x is None)
    kept: list[str] = []
    left_out: list[str] = []
    for index, ((path, _), leaf) in enumerate(zip(paths, leaves, strict=True)):
        is_kept = isinstance(leaf, torch.fx.Node) and gives_tensors(leaf)
        (kept if is_kept else left_out).append(pytree.keystr(path) or f"[{index}]")
    return tuple(kept), tuple(left_out)


def is_number(value: object) -> bool:
    """Whether a value of a graph is a number, which may be symbolic, and no tensor."""
    return isinstance(value, torch.SymInt | torch.SymBool | torch.SymFloat | int | float | bool)


def gives_tensors(node: torch.fx.Node) -> bool:
    """Whether a node stands for a tensor or several, and not for a number."""
    return not is_number(node.meta.get("val"))


def first_traced(tree: torch.nn.Module, key: str) -> torch.fx.Node | None:
    """The first node within a module that says which line it came from, and through which modules."""
    graph = tree.get_submodule(key).graph
    assert isinstance(graph, torch.fx.Graph)
    node: torch.fx.Node
    for node in graph.nodes:
        if node.op == "call_module":
            found = first_traced(tree, f"{key}.{node.target}")
            if found is not None:
                return found
        elif (
            node.op == "call_function"
            and {"stack_trace", "nn_module_stack"} <= node.meta.keys()
            and gives_tensors(node)
        ):
            traced: torch.fx.Node = node
            return traced
    return None


def line_of(node: torch.fx.Node) -> str | None:
    """The innermost line of the user's code that a node came from."""
    frame = source.innermost_frame(node.meta.get("stack_trace"))
    return f"{frame[0]}:{frame[1]}" if frame else None


def forward_line_of(node: torch.fx.Node) -> str | None:
    """The line of the innermost `forward` that a node came from, which is what names its value."""
    frame = source.innermost_forward(node.meta.get("stack_trace"))
    return f"{frame[0]}:{frame[1]}" if frame else None
