"""Small groups for the tests of synapses, counts and messages: a case calls an operation, whose recipe makes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from torchport.capture import operations
from torchport.targets.marble import works
from torchport.targets.marble.composer import Composer, Value, Weight
from torchport.targets.marble.fans import Request, form_of, request
from torchport.targets.marble.groups import Group, Kind, Port
from torchport.targets.marble.recipes import RECIPES
from torchport.targets.marble.recipes.registry import _whole


@dataclass(frozen=True)
class Work:
    """One group and what arrives at it."""

    group: Group
    inputs: list[Tensor]
    arrays: dict[str, Tensor]

    @property
    def ask(self) -> Request:
        return request(self.group, [form_of(one) for one in self.inputs], self.group.results, self.arrays, {})

    def compute(self, inputs: Sequence[Tensor] | None = None) -> list[Tensor]:
        return works.compute(self.group, self.inputs if inputs is None else inputs, self.arrays, {})


@dataclass(frozen=True)
class Stored:
    """An argument that is a weight of the model."""

    tensor: Tensor


@dataclass(frozen=True)
class Case:
    operation: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    kind: Kind | None = None
    """Of the group, for an operation that has no recipe."""

    def __str__(self) -> str:
        return f"{self.operation.removeprefix('aten.')}{' ' * bool(self.label)}{self.label}"

    def cast(self, dtype: torch.dtype) -> Case:
        """The same with all floats of another dtype; integers are some times as large, so that they differ."""

        def one(arg: Any) -> Any:
            if isinstance(arg, Stored):
                return Stored(one(arg.tensor))
            if isinstance(arg, Tensor) and arg.is_floating_point():
                return arg.to(dtype) if dtype.is_floating_point else (arg * 3).to(dtype)
            return [one(item) for item in arg] if isinstance(arg, list) else arg

        kwargs = {name: one(arg) for name, arg in self.kwargs.items()}
        return replace(self, args=tuple(one(arg) for arg in self.args), kwargs=kwargs)

    def works(self) -> list[Work]:
        """Its groups, each with the values that arrive at it."""
        tensors: dict[str, list[Tensor]] = {}
        arrays: dict[str, Tensor] = {}
        composer = Composer("op", "layer", {}, 1000)

        def operand(arg: Any) -> Any:
            if isinstance(arg, Stored):
                name = f"w{len(arrays)}"
                arrays[name] = arg.tensor
                return Weight(name, form_of(arg.tensor))
            if isinstance(arg, Tensor):
                name = f"x{len(tensors)}"
                tensors[name] = [arg]
                return Value(Port(name), form_of(arg))
            return [operand(item) for item in arg] if isinstance(arg, list) else arg

        args = [operand(arg) for arg in self.args]
        kwargs = {name: operand(arg) for name, arg in self.kwargs.items()}
        recipe = RECIPES.get(self.operation) or _whole(self.kind, self.operation)
        recipe(composer, **operations.given(self.operation, args, kwargs))
        arrays |= composer.made
        found = []
        for group in composer.groups:
            inputs = [tensors[port.group][port.index] for port in group.inputs]
            found.append(Work(group, inputs, arrays))
            tensors[group.name] = works.compute(group, inputs, arrays, {})
        return found


def case(operation: str, *args: Any, label: str = "", kind: Kind | None = None, **kwargs: Any) -> Case:
    return Case(f"aten.{operation}", args, kwargs, label, kind)


def randn(*shape: int) -> Tensor:
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape) + sum(shape))
    )


def weight(*shape: int) -> Stored:
    return Stored(randn(*shape, 1)[..., 0])


def ints(high: int, *shape: int) -> Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(high))


def flags(*shape: int) -> Tensor:
    return ints(2, *shape).bool()
