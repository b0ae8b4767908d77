"""What a reader of one graph asks of the whole that the graph belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch


class Owner(Protocol):
    """The graph that a module belongs to."""

    labels: list[str]

    @property
    def rename(self) -> Mapping[str, str]: ...

    @property
    def tree(self) -> torch.nn.Module: ...

    def own_name(self, path: str) -> str | None:
        """The name of the tensor at a path of the traced model; None if it is a constant, which has no name."""

    def keep_weight(self, name: str, path: str) -> None:
        """Takes the tensor at a path of the traced model into the graph's weights, under a name."""

    def keep_constant(self, name: str, value: torch.Tensor) -> None:
        """Takes a tensor that was made inside a body into the graph's weights, under a name."""

    def has_module(self, path: str) -> bool:
        """Whether the model has a module at a path."""

    def path_of_module(self, identity: int) -> str | None:
        """The path of the module that has this `id`; None if the model has none."""
