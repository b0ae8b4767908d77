"""The operations of torch by their full names, such as `aten.gelu.default`, and the names of their arguments.

In: a name, and the arguments of a call. Out: what torch calls, and the arguments by the names of its schema.
Every part of torchport that looks an operation up does it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import torch

from torchport.capture.torch_internals import OpOverload, OpOverloadPacket
from torchport.errors import CaptureError


@dataclass(frozen=True)
class Argument:
    """One argument of an operation, as torch's schema declares it."""

    name: str
    type: str
    """In the words of the schema: `Tensor`, `Optional[Tensor]`, `List[int]`."""
    default: Any
    """The value that torch takes if none is given; None if the argument is required."""
    is_required: bool
    is_keyword_only: bool
    is_written: bool
    """Whether the operation changes what it is given here, as `add_` does with its first argument."""

    @property
    def is_optional_tensor(self) -> bool:
        return self.type == "Optional[Tensor]"


@cache
def overload(name: str) -> OpOverload:
    """The operation of that name, which can be called; CaptureError if this torch has none."""
    found = _find(name)
    if found is None:
        raise CaptureError(
            "TP0207",
            f"torch {torch.__version__} has no operation {name!r}",
            fix="import the package that registers the operation, or use the version of torch that has it",
        )
    return found


def is_operation(name: str) -> bool:
    """Whether torch, or a package that was imported, has an operation of that name."""
    return _find(name) is not None


PACKAGES = {"transformers": "transformers.integrations.moe"}
"""The module that registers the operations of a namespace, for packages that are imported only if one is asked for."""


def _find(name: str) -> OpOverload | None:
    parts = name.split(".")
    if len(parts) != 3 or not all(parts):
        return None
    found = _look_up(parts)
    if found is None and parts[0] in PACKAGES:
        with suppress(ImportError):
            import_module(PACKAGES[parts[0]])
            found = _look_up(parts)
    return found


def _look_up(parts: Sequence[str]) -> OpOverload | None:
    found: Any = torch.ops
    for part in parts:
        found = getattr(found, part, None)
    return found if isinstance(found, OpOverload) else None


def overloads(packet: str) -> tuple[str, ...]:
    """The full names of all forms of an operation: `aten.add` has `aten.add.Tensor`, `aten.add.Scalar`, …"""
    namespace, _, operation = packet.partition(".")
    found = getattr(getattr(torch.ops, namespace), operation, None)
    if not isinstance(found, OpOverloadPacket):
        return ()
    forms: list[str] = found.overloads()  # type: ignore[no-untyped-call]
    return tuple(f"{packet}.{form}" for form in forms)


@cache
def arguments(name: str) -> tuple[Argument, ...]:
    """The arguments of an operation in the order of its schema."""
    return tuple(
        Argument(
            name=argument.name,
            type=str(argument.type),
            default=argument.default_value,
            is_required=not argument.has_default_value(),
            is_keyword_only=argument.kwarg_only,
            is_written=argument.alias_info is not None and argument.alias_info.is_write,
        )
        for argument in overload(name)._schema.arguments
    )


def is_mutating(name: str) -> bool:
    """Whether an operation writes to one of its arguments, as `aten.add_.Tensor` does."""
    return any(argument.is_written for argument in arguments(name))


@cache
def may_alias(name: str) -> bool:
    """Whether an operation may give a view of one of its arguments, as `aten.view.default` does."""
    return any(result.alias_info is not None for result in overload(name)._schema.returns)


_DROPS = {"train": False, "training": False, "dropout": 0, "dropout_p": 0}
"""The arguments of operations that draw random numbers to drop something → the value at which they drop nothing."""


def draws_random_numbers(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of an operation gives other numbers each time."""
    if not may_draw_random_numbers(name):
        return False
    values = bind(name, args, kwargs)
    return not any(argument in values and values[argument] == off for argument, off in _DROPS.items())


@cache
def may_draw_random_numbers(name: str) -> bool:
    """Whether an operation gives other numbers each time, if its arguments do not keep it from that."""
    found = _find(name)
    return found is not None and torch.Tag.nondeterministic_seeded in found.tags


@cache
def always_draws_random_numbers(name: str) -> bool:
    """Whether no argument keeps an operation from drawing."""
    known = (
        {argument.name for argument in arguments(name)} if may_draw_random_numbers(name) else _DROPS.keys()
    )
    return not known & _DROPS.keys()


def given(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, without those that it leaves to their defaults.

    TypeError if the operation has no such argument, or if one is given twice.
    """
    known = arguments(name)
    if len(args) > len(known):
        raise TypeError(f"{name} takes {len(known)} arguments, and {len(args)} are given")
    result = {argument.name: value for argument, value in zip(known, args, strict=False)}
    for key, value in kwargs.items():
        if key in result:
            raise TypeError(f"{name} is given its argument {key!r} twice")
        if all(argument.name != key for argument in known):
            raise TypeError(f"{name} has no argument {key!r}")
        result[key] = value
    return result


def bind(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of a call by name, in the order of the schema, with defaults for those that are left out.

    TypeError if the operation has no such argument, if one is given twice, or if a required one is missing.
    """
    known = given(name, args, kwargs)
    result = {}
    for argument in arguments(name):
        if argument.name in known:
            result[argument.name] = known[argument.name]
        elif argument.is_required:
            raise TypeError(f"{name} is called without its argument {argument.name!r}")
        else:
            result[argument.name] = _own_copy(argument.default)
    return result


def _own_copy(default: Any) -> Any:
    return list(default) if isinstance(default, list) else default
