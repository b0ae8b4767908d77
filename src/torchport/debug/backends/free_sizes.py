"""The values that the free sizes of a graph have in a call of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchport.debug.facts import Sizes


class FreeSizes:
    """Where a graph's inputs show the free sizes: as numbers of their own, or as sizes of tensors."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        inputs = [node for node in module.graph.nodes if node.op == "placeholder"]
        self.places: dict[Any, tuple[int, int | None]] = {}
        """For each symbol the number of the input, and the axis of it or None."""
        self.example: dict[Any, int] = {}
        for number, node in enumerate(inputs):
            value = node.meta.get("val", node.meta.get("example_value"))
            if isinstance(value, Tensor):
                for axis, size in enumerate(value.shape):
                    self._note(size, number, axis)
            else:
                self._note(value, number, None)

    def _note(self, size: Any, number: int, axis: int | None) -> None:
        if not isinstance(size, torch.SymInt) or not size.node.expr.is_symbol:
            return
        self.places.setdefault(size.node.expr, (number, axis))
        if size.node.hint is not None:
            self.example[size.node.expr] = int(size.node.hint)

    def of_call(self, args: Sequence[Any]) -> Sizes:
        found = {}
        for symbol, (number, axis) in self.places.items():
            value = args[number]
            found[symbol] = int(value if axis is None else value.shape[axis])
        return found
