"""The operations of torch by their full names, such as `aten.gelu.default`, and the names of their arguments.

In: a name, and the arguments of a call. Out: what torch calls, and the arguments by the names of its schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch


@dataclass(frozen=True)
class Argument:
    """One argument of an operation, as torch's schema declares it."""

    name: str
    type: str
    """In the words of the schema: `Tensor`, `Optional[Tensor]`, `List[int]`."""
    default: Any
    """The value that torch takes if none is given; None if the argument is required."""

    @property
    def is_optional_tensor(self) -> bool:
        return self.type == "Optional[Tensor]"


@cache
def overload(name: str) -> torch._ops.OpOverload:
    """The operation of that name, which can be called."""
    namespace, operation, form = name.split(".")
    found: torch._ops.OpOverload = getattr(getattr(getattr(torch.ops, namespace), operation), form)
    return found


def overloads(packet: str) -> tuple[str, ...]:
    """The full names of all forms of an operation: `aten.add` has `aten.add.Tensor`, `aten.add.Scalar`, …"""
    namespace, _, operation = packet.partition(".")
    found = getattr(getattr(torch.ops, namespace), operation)
    return tuple(f"{packet}.{form}" for form in found.overloads())


@cache
def arguments(name: str) -> tuple[Argument, ...]:
    """The arguments of an operation in the order of its schema."""
    declared = overload(name)._schema.arguments
    return tuple(Argument(one.name, str(one.type), one.default_value) for one in declared)


def given(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, without those that it leaves to their defaults."""
    positional = {argument.name: value for argument, value in zip(arguments(name), args, strict=False)}
    return {**positional, **kwargs}


def bind(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of a call by name, in the order of the schema, with defaults for those that are left out."""
    known = given(name, args, kwargs)
    return {argument.name: known.get(argument.name, argument.default) for argument in arguments(name)}
