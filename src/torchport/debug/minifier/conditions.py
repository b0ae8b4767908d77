"""A violated constraint as a plain condition, for a script that has neither the constraint nor torchport."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from torchport.debug.constraints.base import CheckedGraph, Constraint, Found, Violation
from torchport.debug.nodes import GraphNode, TensorFacts


class PlainConstraint(Constraint):
    """The condition of a script: an expression of `op` and `tensor` that holds for what is refused."""

    stages = ("dynamo", "forward", "backward", "joint", "outside")

    def __init__(self, name: str, message: str, condition: str) -> None:
        self.name, self.message, self.condition = name, message, condition

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.nodes:
            if any(self._refuses(node.op, tensor) for tensor in node.tensors):
                yield self.violated_by(node, self.message)

    def _refuses(self, op: str, facts: TensorFacts) -> bool:
        tensor = torch.empty_strided(facts.shape, facts.stride, dtype=facts.dtype, device="meta")
        return bool(eval(self.condition, {"torch": torch, "op": op, "tensor": tensor}))


def condition(constraint: Constraint | None, violation: Violation, node: GraphNode | None) -> str:
    """An expression of `op` and `tensor` that holds for the result of an operation that breaks the constraint."""
    if isinstance(constraint, PlainConstraint):
        return constraint.condition
    rule = _RULES.get(violation.constraint, _facts)
    text = rule(constraint, node) if constraint is not None else None
    same_op = f"op == {violation.op!r}"
    rest = _facts(constraint, node) if text is None else text
    return f"{same_op} and {rest}" if rest else same_op


def _facts(constraint: Any, node: GraphNode | None) -> str | None:
    """That a tensor is just like the one that was refused: what can be said of a rule that is not known."""
    if node is None or not node.tensors:
        return None
    tensor = node.tensors[0]
    return f"tuple(tensor.shape) == {tensor.shape} and tensor.dtype == {tensor.dtype}"


def _alignment(constraint: Any, node: GraphNode | None) -> str | None:
    if not hasattr(constraint, "alignment") or not hasattr(constraint, "dims"):
        return None
    sizes = (
        f"[tensor.shape[axis] for axis in {tuple(constraint.dims)} if -tensor.dim() <= axis < tensor.dim()]"
    )
    return f"any(size > 1 and size % {constraint.alignment} for size in {sizes})"


def _dtypes(constraint: Any, node: GraphNode | None) -> str | None:
    allowed: Iterable[torch.dtype] | None = getattr(constraint, "allowed", None)
    return None if allowed is None else f"tensor.dtype not in {{{', '.join(sorted(map(str, allowed)))}}}"


def _bytes(constraint: Any, node: GraphNode | None) -> str | None:
    limit = getattr(constraint, "max_bytes", None)
    is_of_tensor = limit is not None and node is not None and any(one.bytes > limit for one in node.tensors)
    return f"tensor.nbytes > {limit}" if is_of_tensor else None


def _layout(constraint: Any, node: GraphNode | None) -> str | None:
    return (
        "not tensor.is_contiguous()" if getattr(constraint, "memory_format", None) == "contiguous" else None
    )


_RULES: dict[str, Callable[[Any, GraphNode | None], str | None]] = {
    "shape": _alignment,
    "dtype": _dtypes,
    "memory": _bytes,
    "layout": _layout,
    "unsupported_ops": lambda constraint, node: "",
}
