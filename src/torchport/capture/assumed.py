"""What was assumed of a model while it was recorded, which its user may not have meant.

In: the model with its inputs, and the graph that was made of it. Out: the facts; `porting.notes` has the words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict

from torchport.capture import symbols
from torchport.capture.graph import Graph

_SHOWN = 60
"""How much is kept of the text of a constant."""
EVERY_AXIS = (-1, -1)


class FixedAxis(BaseModel):
    """An axis of an input that is usually left free, and could not be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: str
    axis: int
    size: int
    why: str | None = None
    """What fixed it: a line of the model, or what torch.export said; None if that is not known."""


class Assumed(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    training: bool = False
    """Whether the model came in training mode; it is always taken in eval mode."""
    constants: dict[str, str] = {}
    """The arguments that are no tensors, by name, as Python writes them."""
    fixed: tuple[FixedAxis, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """What there is to say, as JSON has it."""
        return self.model_dump(mode="json", exclude_defaults=True)


def constants_of(leaves: Sequence[Any], labels: Sequence[str]) -> dict[str, str]:
    """The arguments that are neither tensors nor None, by their names."""
    return {
        label: _short(repr(leaf))
        for label, leaf in zip(labels, leaves, strict=True)
        if leaf is not None and not isinstance(leaf, torch.Tensor)
    }


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def fixed_axes(
    graph: Graph, inputs: Sequence[torch.Tensor], why: Mapping[tuple[int, int], str]
) -> tuple[FixedAxis, ...]:
    """The axes that would be left free if nobody asks, and are not.

    `why` is known by the number of the input and the axis, or for all of them by `EVERY_AXIS`.
    """
    found = []
    for number, (item, tensor) in enumerate(zip(graph.root.inputs, inputs, strict=True)):
        for axis in symbols.usual_axes(tensor):
            size = item.meta.shape[axis]
            if isinstance(size, int):
                reason = why.get((number, axis), why.get(EVERY_AXIS))
                found.append(FixedAxis(input=item.name, axis=axis, size=size, why=reason))
    return tuple(found)
