"""Sizes that must be multiples of a number, as hardware with wide registers or tiles wants them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchport.debug.constraints.base import CheckedGraph, Constraint, Found
from torchport.debug.nodes import GraphNode, TensorFacts
from torchport.errors import UsageError


class ShapeConstraint(Constraint):
    """The sizes of some axes of every tensor are multiples of `alignment`.

    `dims` are the axes, counted as torch does: by default the last. A tensor that does not have an axis, such as one
    without axes, is not held against it. Sizes of 0 and 1 are accepted: nothing there, or one value, has nothing to
    align. An alignment of 1 accepts everything.
    """

    name = "shape"

    def __init__(self, alignment: int = 8, dims: Sequence[int] = (-1,)) -> None:
        if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment < 1:
            raise UsageError("TP1008", f"an alignment is a whole number of at least 1, not {alignment!r}")
        if isinstance(dims, int) or not all(isinstance(axis, int) for axis in dims):
            raise UsageError("TP1008", f"dims are the numbers of axes, such as (-1,), not {dims!r}")
        self.alignment = alignment
        self.dims = tuple(dims)

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        if self.alignment == 1:
            return
        for node in graph.nodes:
            for tensor in node.tensors:
                yield from self._check_tensor(node, tensor)

    def _check_tensor(self, node: GraphNode, tensor: TensorFacts) -> Iterator[Found]:
        rank = len(tensor.shape)
        for axis in sorted({axis % rank for axis in self.dims if -rank <= axis < rank}):
            size = tensor.shape[axis]
            if tensor.depends_on_data and size == 0:
                message = f"axis {axis} depends on data, so it need not be a multiple of {self.alignment}"
                yield self.violated_by(node, message, fix="pad the axis to a fixed size")
            elif size > 1 and size % self.alignment:
                padded = -(-size // self.alignment) * self.alignment
                message = f"axis {axis} of {tensor.shape} is {size}, no multiple of {self.alignment}"
                yield self.violated_by(node, message, fix=f"pad the axis to {padded}")
