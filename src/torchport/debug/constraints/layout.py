"""How tensors must lie in memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from torchport.debug.constraints.base import CheckedGraph, Constraint, Found
from torchport.debug.nodes import TensorFacts
from torchport.errors import UsageError

_ORDERS: dict[str, dict[int, tuple[int, ...]]] = {
    "contiguous": {},
    "channels_last": {4: (0, 2, 3, 1)},
    "channels_last_3d": {5: (0, 2, 3, 4, 1)},
}
"""For each memory format, the axes from the outermost to the innermost by number of axes, if it is not their order."""
_FORMATS = {
    torch.contiguous_format: "contiguous",
    torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
}


class LayoutConstraint(Constraint):
    """Every tensor is dense in memory, in the order of a memory format.

    `"contiguous"` is the default. With `"channels_last"` (or `"channels_last_3d"`, or torch's own names for them) that
    holds for tensors of four (five) axes; all others must be contiguous.
    """

    name = "layout"

    def __init__(self, memory_format: str | torch.memory_format = "contiguous") -> None:
        known = (
            _FORMATS.get(memory_format, memory_format)
            if not isinstance(memory_format, str)
            else memory_format
        )
        name = str(known).removeprefix("torch.").removesuffix("_format")
        if name not in _ORDERS:
            raise UsageError("TP1008", f"{memory_format!r} is no memory format: {', '.join(_ORDERS)} are")
        self.memory_format = name

    def check(self, graph: CheckedGraph) -> Iterator[Found]:
        for node in graph.nodes:
            for tensor in node.tensors:
                wanted = (
                    self.memory_format if len(tensor.shape) in _ORDERS[self.memory_format] else "contiguous"
                )
                if not lies_in(tensor, wanted):
                    message = f"not {wanted}: shape {tensor.shape} has strides {tensor.stride}"
                    yield self.violated_by(node, message, fix=_fix(wanted))


def lies_in(tensor: TensorFacts, memory_format: str) -> bool:
    """Whether a tensor is dense in the order of a memory format. Axes of size 1 may have any stride."""
    rank = len(tensor.shape)
    if len(tensor.stride) != rank:
        return False
    if 0 in tensor.shape:
        return True
    expected = 1
    for axis in reversed(_ORDERS[memory_format].get(rank, tuple(range(rank)))):
        if tensor.shape[axis] != 1 and tensor.stride[axis] != expected:
            return False
        expected *= tensor.shape[axis]
    return True


def _fix(wanted: str) -> str:
    if wanted == "contiguous":
        return "call .contiguous() there"
    return f"call .to(memory_format=torch.{wanted}) there"
