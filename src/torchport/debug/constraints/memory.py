"""How much memory a tensor, and a graph as a whole, may take."""

from __future__ import annotations

from collections.abc import Iterator

from torchport.debug.constraints.base import CheckedGraph, Constraint, Found
from torchport.debug.constraints.byte_sizes import byte_count, more_than, readable
from torchport.debug.constraints.peak import peak_memory
from torchport.errors import UsageError

_STAGES_WITH_PEAK = ("forward", "backward", "joint")


class MemoryConstraint(Constraint):
    """No tensor takes more than `max_bytes`, and no graph more than `max_peak` at a time.

    Both are bytes or text such as `"16GiB"`; None sets no limit. The peak is that of the ATen graphs, see
    `peak_memory`; operations outside of a graph are held against `max_bytes` alone.
    """

    name = "memory"

    def __init__(self, max_bytes: int | str | None = None, max_peak: int | str | None = None) -> None:
        self.max_bytes = _limit("max_bytes", max_bytes)
        self.max_peak = _limit("max_peak", max_peak)

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        if self.max_bytes is not None:
            yield from self._check_tensors(graph, self.max_bytes)
        if self.max_peak is not None and graph.stage in _STAGES_WITH_PEAK:
            yield from self._check_peak(graph, self.max_peak)

    def _check_tensors(self, graph: CheckedGraph, limit: int) -> Iterator[Found]:
        for node in graph.nodes:
            for tensor in node.tensors:
                if tensor.bytes > limit:
                    size, most = more_than(tensor.bytes, limit)
                    message = f"{size} for a tensor of shape {tensor.shape}, more than {most}"
                    yield self.violated_by(node, message)

    def _check_peak(self, graph: CheckedGraph, limit: int) -> Iterator[Found]:
        peak = peak_memory(graph)
        if peak.node is None or peak.bytes <= limit:
            return
        largest = ", ".join(f"{one.node} {readable(one.bytes)}" for one in peak.living[:3])
        size, most = more_than(peak.bytes, limit)
        message = f"peak memory of the {graph.stage} graph is {size}, more than {most}"
        yield self.violated_by(peak.node, f"{message}; the largest then alive: {largest}")


def _limit(name: str, given: int | str | None) -> int | None:
    try:
        return None if given is None else byte_count(given)
    except ValueError as error:
        raise UsageError("TP1008", f"{name} of a MemoryConstraint: {error}") from None
