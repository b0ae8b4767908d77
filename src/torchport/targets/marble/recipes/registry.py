"""The table of recipes: for each operation of torch, by its full name, how it is expressed as groups of neurons."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.targets.marble.composer import Composer, Value, Weight
from torchport.targets.marble.groups import Kind

Recipe = Callable[..., Any]
"""Takes a composer and the operation's arguments by name, and gives a value or a list of values."""
RECIPES: dict[str, Recipe] = {}


def recipe(*names: str) -> Callable[[Recipe], Recipe]:
    """Registers a recipe for some operations. A name that torch does not have, or that is there already, raises."""

    def register(made: Recipe) -> Recipe:
        for name in names:
            operations.overload(name)
            if name in RECIPES:
                raise ValueError(f"there are two recipes for {name}")
            RECIPES[name] = made
        return made

    return register


def rows(kind: Kind, names: Iterable[str]) -> None:
    """Operations that are one group each, of that kind, whose work is the operation itself."""
    for name in names:
        recipe(name)(_whole(kind, name))


def _whole(kind: Kind, name: str) -> Recipe:
    def made(c: Composer, **arguments: Any) -> list[Value]:
        given = [(key, as_values(c, value)) for key, value in arguments.items() if holds_values(value)]
        options = {key: value for key, value in arguments.items() if not holds_values(value)}
        return c.operation(kind, name, given, options)

    return made


def holds_values(value: Any) -> bool:
    """Whether an argument is a tensor, or a list with one."""
    if isinstance(value, list | tuple):
        return any(holds_values(item) for item in value)
    return isinstance(value, Value | Weight)


_NARROW = ("float16", "bfloat16")


def widened(made: Recipe) -> Recipe:
    """A recipe that is composed in float32 if its first operand is in 16 bits, as torch computes such operations."""

    def wider(c: Composer, **arguments: Any) -> Any:
        first = next(iter(arguments.values()))
        if first.dtype not in _NARROW:
            return made(c, **arguments)
        results = made(c, **{name: _in_float32(c, value) for name, value in arguments.items()})
        return g.map_args(
            results, lambda value: c.cast(value, first.dtype if value.is_float else value.dtype)
        )

    return wider


def _in_float32(c: Composer, argument: Any) -> Any:
    def wide(leaf: Any) -> Any:
        if not isinstance(leaf, Value | Weight) or leaf.dtype not in _NARROW:
            return leaf
        return c.cast(c.constant(leaf) if isinstance(leaf, Weight) else leaf, "float32")

    return g.map_args(argument, wide)


def as_values(c: Composer, value: Any) -> Any:
    """An argument with its weights as neurons that never change."""
    if isinstance(value, list | tuple):
        return [as_values(c, item) for item in value]
    return c.constant(value) if isinstance(value, Weight) else value
