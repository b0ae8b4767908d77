"""What of a model is random: the values that it draws, and all that depend on them. Nothing is proven of either."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


@dataclass(frozen=True)
class Drawn:
    """The keys of what is random, in a trace."""

    values: frozenset[str] = frozenset()
    """Of the random numbers themselves: no two runs have the same, so that their own error says nothing."""
    downstream: frozenset[str] = frozenset()
    """Of all that depends on them, themselves too: its chained error says nothing, and its own error all as ever."""
    shown: frozenset[str] = frozenset()
    """Of the operations that draw and those that they draw from, which every trace must have."""
    operations: tuple[str, ...] = ()
    """Each operation that draws, with its place in the user's source, in the order of execution."""


NOTHING_DRAWN = Drawn()


class RandomSummary(BaseModel):
    """What a verdict leaves out because it is random."""

    model_config = ConfigDict(frozen=True)

    operations: tuple[str, ...]
    """The operations that draw, each with its place in the user's source."""
    layers: tuple[str, ...]
    """The layers whose outputs depend on what is drawn: their own errors are judged, their chained errors are not."""
    outputs: tuple[str, ...]
    """The outputs of the model that depend on what is drawn, of which nothing is proven."""
    proven: tuple[str, ...]
    """The outputs that do not."""

    @property
    def text(self) -> str:
        """What a reader must know before the verdict."""
        drawn = f"random numbers are drawn by {_some(self.operations)}"
        left = f"left out of the verdict are these numbers and what depends on them: {_count(self.layers, 'layer')}"
        outputs = (
            f"{_count(self.outputs, 'output')} of the model" if self.outputs else "no output of the model"
        )
        return f"{drawn}; {left} when chained, and {outputs}"


def _count(names: tuple[str, ...], noun: str) -> str:
    if not names:
        return f"no {noun}"
    return f"{len(names)} {noun}{'s' * (len(names) > 1)} ({_some(names)})"


def _some(names: Iterable[str]) -> str:
    known = list(names)
    return ", ".join(known[:3]) + (f" and {len(known) - 3} more" if len(known) > 3 else "")
