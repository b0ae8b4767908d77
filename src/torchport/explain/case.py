"""A case that fails: a few operations with their inputs and weights, and how to make it smaller.

In: operations of a culprit. Out: smaller cases, each computed with torch, so that one that makes no sense is not made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture.interpret import Interpreter
from torchport.capture.plan import make_plan
from torchport.explain.slice import Slice

Tensors = dict[str, torch.Tensor]
_SIZES = {"size", "shape", "normalized_shape", "split_sizes", "split_size", "output_size", "groups", "end"}
_TRIED_SIZES = (1, 2, 3, 4, 8)


@dataclass(frozen=True)
class Case:
    graph: g.Graph
    inputs: Tensors
    """By the names of the graph's inputs."""
    weights: Tensors
    """As they were recorded."""
    stored: Tensors
    """As the port loads them."""

    @property
    def nodes(self) -> tuple[g.Node, ...]:
        """The operations."""
        return tuple(node for node in self.graph.root.nodes if node.op != g.CALL)

    @property
    def elements(self) -> int:
        return sum(tensor.numel() for tensor in (*self.inputs.values(), *self.weights.values()))


def case_of(part: Slice, values: Tensors, weights: Tensors, stored: Tensors) -> Case:
    """`values` by trace key; weights by their names in the part."""
    root = part.graph.root
    return Case(
        part.graph,
        {item.name: values[key] for item, key in zip(root.inputs, part.inputs, strict=True)},
        {name: weights[name] for name in part.graph.weights},
        {name: stored.get(name, weights[name]) for name in part.graph.weights},
    )


def smaller_sizes(case: Case) -> Iterator[tuple[int, int]]:
    """Sizes of axes to try, the largest first: (what it is, what it may become)."""
    tensors = (*case.inputs.values(), *case.weights.values())
    for old in sorted({size for tensor in tensors for size in tensor.shape if size > 1}, reverse=True):
        for new in dict.fromkeys([*(n for n in _TRIED_SIZES if n < old), old // 4, old // 2]):
            if 0 < new < old:
                yield old, new


def resized(case: Case, old: int, new: int) -> Case | None:
    """Every axis of size `old` cut to `new`, wherever it is; None where torch cannot compute that."""

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        for axis, size in enumerate(tensor.shape):
            if size == old:
                tensor = tensor.narrow(axis, 0, new)
        if tensor.dtype == torch.int64 and tensor.numel() and int(tensor.max()) >= new:
            tensor = tensor % new
        return tensor.contiguous()

    def cut_all(tensors: Tensors) -> Tensors:
        return {name: cut(tensor) for name, tensor in tensors.items()}

    nodes = tuple(_with_sizes(node, old, new) for node in case.graph.root.nodes)
    root = replace(case.graph.root, nodes=nodes)
    graph = replace(case.graph, modules={**case.graph.modules, "": root})
    return _sound(Case(graph, *(cut_all(part) for part in (case.inputs, case.weights, case.stored))))


def rounded(case: Case, steps: int) -> Case | None:
    """Every float in a coarse grid, so that it can be written with few digits."""

    def coarse(tensor: torch.Tensor) -> torch.Tensor:
        return (tensor * steps).round() / steps if tensor.is_floating_point() else tensor

    def all_coarse(tensors: Tensors) -> Tensors:
        return {name: coarse(tensor) for name, tensor in tensors.items()}

    return _sound(Case(case.graph, *(all_coarse(part) for part in (case.inputs, case.weights, case.stored))))


def _with_sizes(node: g.Node, old: int, new: int) -> g.Node:
    """Sizes that are arguments; axes, strides and the like stay."""
    if node.op == g.CALL:
        return node
    namespace, operation, overload = node.op.split(".")
    schema = getattr(getattr(getattr(torch.ops, namespace), operation), overload)._schema
    names = [argument.name for argument in schema.arguments]

    def changed(name: str, value: Any) -> Any:
        if name not in _SIZES:
            return value
        return g.map_args(value, lambda item: new if type(item) is int and item == old else item)

    args = tuple(changed(name, value) for name, value in zip(names, node.args, strict=False))
    return replace(node, args=args, kwargs={name: changed(name, v) for name, v in node.kwargs.items()})


def _sound(case: Case) -> Case | None:
    """The case with the shapes that torch gives its values; None where torch cannot compute it."""
    results: dict[str, Any] = {}
    seen: dict[str, torch.Tensor] = {}

    class Machine(Interpreter):
        def apply(self, node: g.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
            results[node.name] = super().apply(node, args, kwargs)
            return results[node.name]

    def note(key: str, value: torch.Tensor) -> torch.Tensor:
        seen[key] = value
        return value

    plan = make_plan(case.graph)
    try:
        outputs = Machine(case.graph, case.weights, plan, note).run(list(case.inputs.values()))
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    if not all(output.numel() for output in outputs):
        return None
    modules = {}
    for call in plan.calls.values():
        module = case.graph.modules[call.module]
        inputs = tuple(
            replace(item, meta=_meta(seen[key], item.meta))
            for item, key in zip(module.inputs, call.inputs, strict=True)
        )
        modules[module.key] = replace(module, inputs=inputs)
        for node in case.graph.root.nodes:
            if node.target == module.key:
                results[node.name] = [seen[key] for key in call.outputs]
    root = modules[""]
    nodes = tuple(replace(node, outputs=_metas(node, results[node.name])) for node in root.nodes)
    weights = {
        name: replace(w, meta=_meta(case.weights[name], w.meta)) for name, w in case.graph.weights.items()
    }
    graph = replace(case.graph, modules={**modules, "": replace(root, nodes=nodes)}, weights=weights)
    return replace(case, graph=graph)


def _metas(node: g.Node, value: Any) -> tuple[g.TensorMeta | None, ...]:
    values = list(value) if isinstance(value, list | tuple) else [value]
    return tuple(
        None if meta is None else _meta(item, meta) for item, meta in zip(values, node.outputs, strict=True)
    )


def _meta(tensor: torch.Tensor, meta: g.TensorMeta) -> g.TensorMeta:
    return replace(meta, shape=tuple(tensor.shape))


def computed(case: Case, *, wide: bool = False) -> list[torch.Tensor]:
    """What torch computes, or the float64 truth of it."""
    machine = Interpreter(case.graph, case.weights, make_plan(case.graph), lambda _, value: value, truth=wide)
    return machine.run(list(case.inputs.values()))
