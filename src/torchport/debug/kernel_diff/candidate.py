"""What the backend computes at every node of a graph: a compilation in which every tensor is an output."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.debug.kernel_diff.captured import CapturedGraph
from torchport.debug.kernel_diff.computing import Computing, NotComputable
from torchport.debug.kernel_diff.route import CompiledGraph, Route
from torchport.debug.kernel_diff.steps import Step, outputs_of
from torchport.debug.kernel_diff.stretches import CompiledStretch, compile_stretches
from torchport.debug.kernel_diff.watched_dispatch import WatchedDispatch, ran_as_it_is
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
    stretches: int = 1
    """How many compilations observe the graph."""


@dataclass(frozen=True)
class CompiledPair:
    """A graph twice: with every value observed, in one stretch or several, and as it is."""

    observed: list[CompiledStretch]
    alone: CompiledGraph

    @property
    def kernels(self) -> tuple[int | None, int | None]:
        counts = [one.compiled.kernels for one in self.observed]
        known = [count for count in counts if count is not None]
        return (sum(known) if len(known) == len(counts) else None), self.alone.kernels


def compile_pair(
    route: Route, graph: CapturedGraph, steps: Sequence[Step], most_bytes: float
) -> CompiledPair:
    return CompiledPair(
        compile_stretches(route, graph, steps, most_bytes),
        route.compile(graph.module, graph.inputs, graph.stage),
    )


def run_pair(
    pair: CompiledPair, graph: CapturedGraph, steps: Sequence[Step], values: MutableMapping[str, Tensor]
) -> CandidateRun:
    """Runs both, and puts what is observed into `values`."""
    run = new_run(pair, values)
    computing = Computing(graph, steps, values)
    torch.manual_seed(0)
    for one in pair.observed:
        observe(run, one, computing)
    torch.manual_seed(0)
    leave_alone(run, pair, graph)
    return run


def new_run(pair: CompiledPair, values: MutableMapping[str, Tensor]) -> CandidateRun:
    return CandidateRun(values, kernels=pair.kernels, stretches=len(pair.observed))


def observe(run: CandidateRun, one: CompiledStretch, computing: Computing) -> None:
    """Runs a stretch of a graph, and puts its values, or why there are none, into the run."""
    try:
        _put_values(run, one, one.run(computing.given))
    except NotComputable as error:
        run.reasons |= dict.fromkeys((node.name for node in one.stretch.values), str(error))


def leave_alone(run: CandidateRun, pair: CompiledPair, graph: CapturedGraph) -> None:
    """Runs a graph without observing it."""
    run.outputs = _as_list(pair.alone.run(graph.inputs))
    if run.outputs is not None and len(run.outputs) != len(outputs_of(graph)):
        run.outputs = None


def _put_values(run: CandidateRun, one: CompiledStretch, found: Any) -> None:
    nodes, results = one.stretch.values, _as_list(found)
    if results is None or len(results) != len(nodes):
        number = type(found).__name__ if results is None else f"{len(results)} values"
        reason = f"the backend gives {number} where {len(nodes)} tensors were expected"
        run.reasons |= dict.fromkeys((node.name for node in nodes), reason)
        return
    for node, result in zip(nodes, results, strict=True):
        if (why := why_unusable(node, result)) is None:
            run.values[node.name] = result.detach()
        else:
            run.reasons[node.name] = why


def runs_in_eager(pair: CompiledPair, computing: Computing) -> bool:
    """Whether the operations of the graph, and no others, run in eager PyTorch: nothing of the backend's computes."""
    run = new_run(pair, {})
    again = Computing(computing.graph, computing.steps, run.values, computing.plain)
    with WatchedDispatch() as watched:
        for place, one in enumerate(pair.observed):
            observe(run, one, again)
            read = {node.name for later in pair.observed[place + 1 :] for node in later.stretch.reads}
            for name in run.values.keys() - read:
                del run.values[name]
    return ran_as_it_is((step.node for step in computing.steps), watched.ran)


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
