"""The most memory that a graph of ATen operations needs at a time, by which of its tensors live when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchport.debug.constraints.base import CheckedGraph
from torchport.debug.nodes import GraphNode


@dataclass(frozen=True)
class LivingStorage:
    """Memory that lives while a node runs, by the first node that has it."""

    node: str
    bytes: int


@dataclass(frozen=True)
class Peak:
    bytes: int
    node: GraphNode | None
    """The node during which the most memory is in use; None if the graph uses none."""
    living: tuple[LivingStorage, ...]
    """What lives then, the largest first."""


def peak_memory(graph: CheckedGraph) -> Peak:
    """The peak of a graph that is run node by node, and frees what nothing reads any more.

    Views share the memory of what they view. Inputs and weights belong to the caller, who keeps them; what the forward
    pass has saved for the backward pass does not, and is freed after its last use. Outputs live to the end. A node's
    inputs and outputs live together. Memory that a kernel takes for itself while it runs is not known here.
    """
    sizes = _storage_sizes(graph.nodes)
    first = _first_owners(graph.nodes)
    freed_after = _freed_after(graph)
    living: dict[int, int] = {}
    total = 0
    best, best_node, best_living = 0, None, {}
    for index, node in enumerate(graph.nodes):
        for storage in _storages(node):
            if first[storage] is node and storage not in living:
                living[storage] = sizes[storage]
                total += sizes[storage]
        if total > best:
            best, best_node, best_living = total, node, dict(living)
        for storage in freed_after.get(index, ()):
            total -= living.pop(storage, 0)
    largest = sorted(best_living.items(), key=lambda item: -item[1])
    return Peak(best, best_node, tuple(LivingStorage(first[one].name, size) for one, size in largest))


def _storages(node: GraphNode) -> Iterable[int]:
    return dict.fromkeys(tensor.storage for tensor in node.tensors if tensor.storage is not None)


def _storage_sizes(nodes: Iterable[GraphNode]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for node in nodes:
        for tensor in node.tensors:
            if tensor.storage is not None:
                sizes[tensor.storage] = max(sizes.get(tensor.storage, 0), tensor.storage_bytes)
    return sizes


def _first_owners(nodes: Iterable[GraphNode]) -> dict[int, GraphNode]:
    first: dict[int, GraphNode] = {}
    for node in nodes:
        for storage in _storages(node):
            first.setdefault(storage, node)
    return first


def _freed_after(graph: CheckedGraph) -> dict[int, list[int]]:
    """The storages that are free once the node with an index has run."""
    by_name = {node.name: node for node in graph.nodes}
    last: dict[int, int] = {}
    for index, node in enumerate(graph.nodes):
        read = (by_name[name] for name in node.inputs if name in by_name)
        for one in (node, *read):
            last.update((storage, index) for storage in _storages(one))
    kept = {storage for node in graph.nodes if _is_of_caller(node, graph) for storage in _storages(node)}
    freed: dict[int, list[int]] = {}
    for storage, index in last.items():
        if storage not in kept:
            freed.setdefault(index, []).append(storage)
    return freed


def _is_of_caller(node: GraphNode, graph: CheckedGraph) -> bool:
    if node.kind == "get_attr":
        return True
    if node.kind != "placeholder" or "." in node.name:
        return False
    return graph.stage != "backward" or node.name.startswith("primals_")
