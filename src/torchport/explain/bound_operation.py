"""One operation of the culprit with the operands that it was given, ready to be computed in another way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture import operations


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

    def described(self, argument: str) -> str:
        """The argument with the name that the user's code has for its value: `query (q)`."""
        value = operations.given(self.node.op, self.node.args, self.node.kwargs).get(argument)
        known = self.names.get(value.name, value.name) if isinstance(value, g.Ref) else argument
        return argument if known == argument else f"{argument} ({known})"
