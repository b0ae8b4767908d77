"""Tensors of a caller and the golden copies that its layers return parts of, of which only one is written to.

As the model is, both are one piece of memory. In lock-step they are two, and what is written to one of them is not in
the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from torchport.capture.torch_internals import pytree, storage_id


@dataclass
class Twins:
    """Which memory stands for which other memory, and whether some was read that lacks what the other was written."""

    other: dict[int, int] = field(default_factory=dict)
    alive: list[Tensor] = field(default_factory=list)
    """Keeps memory from being freed, so that no two pieces have the same number."""
    stale: set[int] = field(default_factory=set)
    """The memory that lacks what was written to its twin."""
    is_read_stale: bool = False

    def pair_up(self, original: Tensor, copy: Tensor) -> None:
        one, other = storage_id(original), storage_id(copy)
        self.other |= {one: other, other: one}
        self.alive += [original, copy]

    def computes(self, func: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Is told of every operation before it is computed."""
        if not self.other:
            return
        written = _memory_of(_written(func, args, kwargs))
        read = _memory_of((args, kwargs))
        for memory in written:
            twin = self.other.get(memory)
            if twin is not None and twin in read:  # The one is made equal to the other.
                self.stale.discard(memory)
            elif twin is not None:
                self.stale.add(twin)
        self.is_read_stale = self.is_read_stale or not self.stale.isdisjoint(read)


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> list[Any]:
    arguments = func._schema.arguments
    given = {argument.name: value for argument, value in zip(arguments, args, strict=False)} | kwargs
    is_written = {one.name for one in arguments if one.alias_info is not None and one.alias_info.is_write}
    return [value for name, value in given.items() if name in is_written]


def _memory_of(tree: Any) -> set[int]:
    return {storage_id(leaf) for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)}
