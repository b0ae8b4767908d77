"""Constraints that only accelerators have: which operations, whether sizes may be free, whether backward runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from torchport.debug.constraints.base import CheckedGraph, Constraint, Found
from torchport.debug.constraints.layout import lies_in


class AllowedOps(Constraint):
    """Every ATen operation must be matched by a name or pattern."""

    name = "allowed operations"
    stages = ("forward", "backward", "outside")

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = frozenset(allowed)

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.operations:
            is_python = node.op.startswith("operator.")  # It takes a tuple apart, or computes a size.
            if not is_python and not any(fnmatchcase(node.op, allowed) for allowed in self.allowed):
                yield self.violated_by(node, f"{node.op} is not among what it can run")


class AnyLayout(Constraint):
    """Every tensor lies in memory as one of several formats says."""

    name = "layout"

    def __init__(self, formats: Iterable[str]) -> None:
        self.formats = sorted(formats)

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.nodes:
            for tensor in node.tensors:
                if not any(lies_in(tensor, one) for one in self.formats):
                    wanted = " nor ".join(self.formats)
                    message = f"neither {wanted}: shape {tensor.shape} has strides {tensor.stride}"
                    yield self.violated_by(node, message, fix="call .contiguous() there")


class FixedShapes(Constraint):
    """No tensor may have a size that is known only when the graph runs."""

    name = "fixed shapes"
    stages = ("forward", "backward")

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.nodes:
            if any(tensor.has_free_sizes for tensor in node.tensors):
                yield self.violated_by(
                    node, "a size is known only at run time", fix="compile with dynamic=False"
                )


class InferenceOnly(Constraint):
    """There may be no backward graph; its first operation is named."""

    name = "inference only"
    stages = ("backward",)

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.operations:
            yield self.violated_by(
                node, "it runs no backward graphs", fix="run the model under torch.no_grad"
            )
            return
