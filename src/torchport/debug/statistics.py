"""What a graph and its kernels add up to: operations, dtypes, bytes, and how much was fused, ready for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from torchport.debug.constraints.base import CheckedGraph
from torchport.debug.kernels import Kernel
from torchport.debug.nodes import GraphNode
from torchport.parity.dtypes import name_of


def statistics(
    graph: CheckedGraph, kernels: Sequence[Kernel] | None = None, outside: dict[str, int] | None = None
) -> dict[str, Any]:
    """The numbers of a graph; those of its kernels are None if it was not compiled, or nothing is known of that."""
    operations = list(graph.operations)
    return {
        "graph": graph.name,
        "stage": graph.stage,
        "nodes": len(graph.nodes),
        "inputs": sum(node.kind == "placeholder" for node in graph.nodes),
        "operations": len(operations),
        "operation_counts": _most_first(Counter(node.op for node in operations)),
        "module_counts": _most_first(Counter(node.module_type for node in operations if node.module_type)),
        "dtypes": _by_dtype(graph.nodes),
        "bytes": {
            "inputs": _bytes(node for node in graph.nodes if node.kind == "placeholder"),
            "computed": _bytes(operations),
            "largest": _largest(graph.nodes),
        },
        "free_sizes": any(one.has_free_sizes for node in graph.nodes for one in node.tensors),
        "kernels": None if kernels is None else _of_kernels(kernels, outside or {}),
    }


def _of_kernels(kernels: Sequence[Kernel], outside: dict[str, int]) -> dict[str, Any]:
    return {
        "generated": len(kernels),
        "languages": _most_first(Counter(kernel.language for kernel in kernels)),
        "fused": {kernel.name: list(kernel.operations) for kernel in kernels},
        "calls_of_libraries": _most_first(Counter(outside)),
    }


def _by_dtype(nodes: Sequence[GraphNode]) -> dict[str, dict[str, int]]:
    tensors: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for node in nodes:
        for one in node.tensors:
            name = name_of(one.dtype)
            tensors[name] += 1
            sizes[name] += one.bytes
    return {name: {"tensors": tensors[name], "bytes": sizes[name]} for name in _most_first(tensors)}


def _bytes(nodes: Any) -> int:
    return sum(one.bytes for node in nodes for one in node.tensors)


def _largest(nodes: Sequence[GraphNode]) -> dict[str, Any] | None:
    """The node that gives the largest tensor; None if there is no tensor."""
    sized = [(one.bytes, node.name) for node in nodes for one in node.tensors]
    if not sized:
        return None
    size, name = max(sized, key=lambda pair: pair[0])
    return {"node": name, "bytes": size}


def _most_first(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
