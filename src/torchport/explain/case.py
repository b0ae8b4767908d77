"""A case that fails: a few operations with their inputs and weights, and how to make it smaller.

In: operations of a culprit. Out: smaller cases. Each is computed with torch, so one that makes no sense is never made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.capture.interpret import Interpreter
from torchport.capture.plan import make_plan
from torchport.explain.noted_run import CANNOT_COMPUTE, NotedRun
from torchport.explain.slice import Slice

Tensors = dict[str, torch.Tensor]
SIZE_ARGUMENTS = {
    "size",
    "shape",
    "normalized_shape",
    "split_sizes",
    "split_size",
    "output_size",
    "groups",
    "end",
}
"""The arguments that are sizes of axes; an axis, a stride and the like have other names."""
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
        """The operations, without the calls of other modules."""
        return tuple(node for node in self.graph.root.nodes if node.op != g.CALL)

    @property
    def elements(self) -> int:
        """How many numbers the inputs and the weights have together."""
        return sum(tensor.numel() for tensor in (*self.inputs.values(), *self.weights.values()))


def case_of(part: Slice, values: Tensors, weights: Tensors, stored: Tensors) -> Case:
    """The operations of a slice as a case; `values` by trace key, weights by their names in the slice."""
    root = part.graph.root
    return Case(
        part.graph,
        {item.name: values[key] for item, key in zip(root.inputs, part.inputs, strict=True)},
        {name: weights[name] for name in part.graph.weights},
        {name: stored.get(name, weights[name]) for name in part.graph.weights},
    )


def computed(case: Case, *, wide: bool = False) -> list[torch.Tensor]:
    """The outputs that torch computes, or their float64 truth if `wide`."""
    interpreter = Interpreter(
        case.graph, case.weights, make_plan(case.graph), lambda _, value: value, truth=wide
    )
    return interpreter.run(list(case.inputs.values()))


def smaller_sizes(case: Case) -> Iterator[tuple[int, int]]:
    """Pairs of a size that some axis has and a smaller one to try in its place; the largest size comes first."""
    tensors = (*case.inputs.values(), *case.weights.values())
    for old in sorted({size for tensor in tensors for size in tensor.shape if size > 1}, reverse=True):
        for new in dict.fromkeys([*(n for n in _TRIED_SIZES if n < old), old // 4, old // 2]):
            if 0 < new < old:
                yield old, new


def resized(case: Case, old: int, new: int) -> Case | None:
    """The case with every axis of size `old` cut to `new`, or None if torch cannot compute that."""

    def cut(tensor: torch.Tensor) -> torch.Tensor:
        for axis, size in enumerate(tensor.shape):
            if size == old:
                tensor = tensor.narrow(axis, 0, new)
        if tensor.dtype == torch.int64 and tensor.numel() and int(tensor.max()) >= new:
            tensor = tensor % new
        return tensor.contiguous()

    nodes = tuple(_with_sizes(node, old, new) for node in case.graph.root.nodes)
    root = replace(case.graph.root, nodes=nodes)
    graph = replace(case.graph, modules={**case.graph.modules, "": root})
    return _with_computed_shapes(_with_tensors(replace(case, graph=graph), cut))


def rounded(case: Case, steps: int) -> Case | None:
    """The case with every float on a grid of `steps` points to 1, which takes few digits; None as for `resized`."""

    def coarse(tensor: torch.Tensor) -> torch.Tensor:
        return (tensor * steps).round() / steps if tensor.is_floating_point() else tensor

    return _with_computed_shapes(_with_tensors(case, coarse))


def _with_tensors(case: Case, change: Callable[[torch.Tensor], torch.Tensor]) -> Case:
    def changed(tensors: Tensors) -> Tensors:
        return {name: change(tensor) for name, tensor in tensors.items()}

    return Case(case.graph, changed(case.inputs), changed(case.weights), changed(case.stored))


def _with_sizes(node: g.Node, old: int, new: int) -> g.Node:
    """The operation with the sizes among its arguments changed."""
    if node.op == g.CALL:
        return node

    def changed(name: str, value: Any) -> Any:
        if name not in SIZE_ARGUMENTS:
            return value
        return g.map_args(value, lambda item: new if type(item) is int and item == old else item)

    declared = operations.arguments(node.op)
    args = tuple(changed(argument.name, value) for argument, value in zip(declared, node.args, strict=False))
    return replace(
        node, args=args, kwargs={name: changed(name, value) for name, value in node.kwargs.items()}
    )


def _with_computed_shapes(case: Case) -> Case | None:
    """The case with the shapes that torch gives its values, or None if torch cannot compute it."""
    plan = make_plan(case.graph)
    run = NotedRun(case.graph, case.weights, plan)
    try:
        outputs = run.run(list(case.inputs.values()))
    except CANNOT_COMPUTE:
        return None
    if not all(output.numel() for output in outputs):
        return None
    modules = {
        call.module: _with_shapes_of(
            case.graph.modules[call.module], [run.values[key] for key in call.inputs]
        )
        for call in plan.calls.values()
    }
    results = run.results | {
        node.name: [run.values[key] for key in call.outputs]
        for call in plan.calls.values()
        for node in case.graph.root.nodes
        if node.target == call.module
    }
    root = modules[""]
    nodes = tuple(replace(node, outputs=_metas(node, results[node.name])) for node in root.nodes)
    weights = {
        name: replace(weight, meta=shaped_as(case.weights[name], weight.meta))
        for name, weight in case.graph.weights.items()
    }
    known = {**case.graph.modules, **modules, "": replace(root, nodes=nodes)}
    graph = replace(case.graph, modules=known, weights=weights)
    return replace(case, graph=graph)


def _with_shapes_of(module: g.Module, values: Sequence[torch.Tensor]) -> g.Module:
    """The module with inputs of the shapes that these values have."""
    inputs = tuple(
        replace(item, meta=shaped_as(value, item.meta))
        for item, value in zip(module.inputs, values, strict=True)
    )
    return replace(module, inputs=inputs)


def _metas(node: g.Node, result: Any) -> tuple[g.TensorMeta | None, ...]:
    results = list(result) if isinstance(result, list | tuple) else [result]
    return tuple(
        None if meta is None else shaped_as(item, meta)
        for item, meta in zip(results, node.outputs, strict=True)
    )


def shaped_as(tensor: torch.Tensor, meta: g.TensorMeta) -> g.TensorMeta:
    """What a graph says of a value, with the shape of a tensor."""
    return replace(meta, shape=tuple(tensor.shape))
