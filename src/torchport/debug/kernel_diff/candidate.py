"""What the backend computes at every node of a graph: one compilation in which every tensor is an output."""

from __future__ import annotations

import copy
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.debug.kernel_diff.captured import CapturedGraph
from torchport.debug.kernel_diff.route import CompiledGraph, Route
from torchport.debug.kernel_diff.steps import Step, outputs_of
from torchport.debug.kernel_diff.watched_dispatch import WatchedDispatch, were_all_run
from torchport.parity.dtypes import name_of


@dataclass
class CandidateRun:
    """The values that a backend gives for the nodes of one graph, and for its outputs if it is left alone."""

    values: MutableMapping[str, Tensor]
    """By the name of the node."""
    reasons: dict[str, str] = field(default_factory=dict)
    """By node, why there is no value that could be compared."""
    outputs: list[Any] | None = None
    """What the graph gives if nothing is observed, in its order; None if it gives another number of values."""
    kernels: tuple[int | None, int | None] = (None, None)
    """Of the observed graph, and of the one that is left alone."""


@dataclass(frozen=True)
class CompiledPair:
    """A graph twice: with every value observed, and as it is."""

    observed: CompiledGraph
    alone: CompiledGraph


def compile_pair(route: Route, graph: CapturedGraph, steps: Sequence[Step]) -> CompiledPair:
    return CompiledPair(
        route.compile(exposed(graph, steps), graph.inputs, graph.stage),
        route.compile(graph.module, graph.inputs, graph.stage),
    )


def exposed(graph: CapturedGraph, steps: Sequence[Step]) -> torch.fx.GraphModule:
    """A copy of a graph that gives the tensors of all its operations."""
    module = copy.deepcopy(graph.module)
    nodes = {node.name: node for node in module.graph.nodes}
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    output.args = (tuple(nodes[value.name] for step in steps for value in step.values),)
    module.graph.eliminate_dead_code(is_impure_node=lambda node: node.op in ("placeholder", "output"))
    module.recompile()
    return module


def run_pair(
    pair: CompiledPair, graph: CapturedGraph, steps: Sequence[Step], values: MutableMapping[str, Tensor]
) -> CandidateRun:
    """Runs both, and puts what is observed into `values`."""
    run = CandidateRun(values, kernels=(pair.observed.kernels, pair.alone.kernels))
    nodes = [value for step in steps for value in step.values]
    torch.manual_seed(0)
    found = pair.observed.run(graph.inputs)
    results = _as_list(found)
    if results is None or len(results) != len(nodes):
        number = type(found).__name__ if results is None else f"{len(results)} values"
        reason = f"the backend gives {number} where {len(nodes)} tensors were expected"
        run.reasons = dict.fromkeys((node.name for node in nodes), reason)
        results = []
    for node, result in zip(nodes, results, strict=False):
        if (why := why_unusable(node, result)) is None:
            values[node.name] = result.detach()
        else:
            run.reasons[node.name] = why
    torch.manual_seed(0)
    run.outputs = _as_list(pair.alone.run(graph.inputs))
    if run.outputs is not None and len(run.outputs) != len(outputs_of(graph)):
        run.outputs = None
    return run


def runs_in_eager(pair: CompiledPair, graph: CapturedGraph, steps: Sequence[Step]) -> bool:
    """Whether eager PyTorch runs every operation of the graph, so that nothing of the backend's computes anything."""
    with WatchedDispatch() as watched:
        pair.observed.run(graph.inputs)
    return were_all_run((step.node for step in steps), watched.ran)


def _as_list(found: Any) -> list[Any] | None:
    if isinstance(found, Tensor):
        return [found]
    return list(found) if isinstance(found, tuple | list) else None


def why_unusable(node: torch.fx.Node, result: Any) -> str | None:
    """Why what a backend gives for a node cannot be its value, whatever the numbers are; None if it can."""
    expected = node.meta["val"]
    if not isinstance(result, Tensor):
        return f"the backend gives {type(result).__name__} where a tensor was expected"
    if result.is_meta or result.layout is not torch.strided:
        return (
            f"the backend gives a {'meta' if result.is_meta else result.layout} tensor, which has no values"
        )
    if result.device.type != expected.device.type:
        return f"the backend gives it on {result.device.type} where {expected.device.type} was expected"
    shape = tuple(int(size) for size in expected.shape)
    if tuple(result.shape) != shape:
        return f"shape {list(result.shape)} where {list(shape)} was expected"
    if result.dtype != expected.dtype:
        return f"dtype {name_of(result.dtype)} where {name_of(expected.dtype)} was expected"
    return None
