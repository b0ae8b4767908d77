"""One operation of the culprit with the operands that it was given, ready to be computed in another way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture import operations

COPY = "aten.alias.default"


@dataclass(frozen=True)
class BoundOperation:
    """An operation and its arguments by the names of torch's schema. Call it with those that are to change."""

    node: g.Node
    overload: Any
    """What torch calls for it."""
    arguments: dict[str, Any]
    result: Any
    """What torch computes from these arguments."""
    names: dict[str, str]
    """What the user's code, or else the trace, calls a value of the graph."""
    observed: torch.Tensor | None = None
    """What the candidate has in the place of the result, if that is known."""
    values: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """Other values of the layer, which do not depend on the operation, by their names."""
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    """The weights that the layer reads, by their names."""
    layer: Mapping[str, BoundOperation] = field(default_factory=dict)
    """All operations of the layer, by the names of their nodes."""

    def __call__(self, /, **changes: Any) -> Any:
        return self.overload(**{**self.arguments, **changes})

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    def get(self, argument: str) -> Any:
        return self.arguments.get(argument)

    @property
    def short_name(self) -> str:
        """`conv2d` of `aten.conv2d.default`."""
        return self.node.op.split(".")[1]

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The arguments that are tensors."""
        return {name: value for name, value in self.arguments.items() if isinstance(value, torch.Tensor)}

    @property
    def is_a_copy(self) -> bool:
        """Whether it stands for a value that no operation of the layer computes."""
        return self.node.op == COPY

    def is_weight(self, argument: str) -> bool:
        """Whether an argument is a weight that the operation reads directly."""
        return self.weight_name(argument) is not None

    def weight_name(self, argument: str) -> str | None:
        """The name of the weight that an argument is."""
        value = self.arguments.get(argument)
        return next((name for name, weight in self.weights.items() if value is weight), None)

    def described(self, argument: str) -> str:
        """The argument with the name that the user's code has for its value: `query (q)`."""
        value = operations.given(self.node.op, self.node.args, self.node.kwargs).get(argument)
        known = self.names.get(value.name, value.name) if isinstance(value, g.Ref) else argument
        return argument if known == argument else f"{argument} ({known})"
