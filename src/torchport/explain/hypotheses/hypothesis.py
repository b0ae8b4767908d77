"""What a hypothesis is: one thing that may be wrong with an operation, and the result that it would then have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torchport.explain.bound_operation import BoundOperation


@dataclass(frozen=True)
class Hypothesis:
    kind: str
    """The class of mistake, as a report names it: `eps`, `axis`, `transposed_weight`."""
    text: str
    """The sentence for the user; `{value}` stands for the number that was fitted."""
    compute: Callable[..., Any]
    """Gives the result that the operation would have. If there is a `span`, it takes the number to be fitted."""
    span: tuple[float, float] | None = None
    """The least and the largest number that are tried."""


Topic = Callable[[BoundOperation], Iterator[Hypothesis]]
"""All hypotheses of one sort about an operation; none if that sort does not apply to it."""
