"""One operation as groups of neurons, by its recipe, and the assembly that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.targets.marble import works
from torchport.targets.marble.composer import Composer, Unsupported, Value, Weight, empty
from torchport.targets.marble.groups import Array, Assembly
from torchport.targets.marble.recipes import RECIPES


def expanded(
    composer: Composer, operation: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Value]:
    """The results of an operation, of which the composer now has the groups; Unsupported if no recipe has them."""
    recipe = RECIPES.get(operation)
    if recipe is None:
        raise Unsupported("which no recipe expresses as neurons")
    try:
        made = recipe(composer, **operations.given(operation, args, kwargs))
    except RuntimeError as error:
        _must_fit(operation, args, kwargs, composer.sizes, error)
        raise
    return made if isinstance(made, list) else [made]


class Unfitting(Exception):
    """An operation whose operands do not fit together: torch would not do it either."""


def _must_fit(
    operation: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], sizes: works.Sizes, error: RuntimeError
) -> None:
    """Unfitting if torch refuses operands of these shapes, too; otherwise the recipe is at fault."""

    def without_values(leaf: Any) -> Any:
        return empty(leaf.form) if isinstance(leaf, Value | Weight) else works.settled(leaf, sizes)

    given, named = (g.map_args(some, without_values) for some in (args, dict(kwargs)))
    try:
        with torch.device("meta"):
            operations.overload(operation)(*given, **named)
    except RuntimeError:
        raise Unfitting(str(error)) from error


def assembled(
    composer: Composer,
    operation: str | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    results: list[Value],
    source: str | None,
) -> Assembly:
    """The groups of the composer as one step. Its name is not that of a group, so that both can be read."""
    outputs = tuple(value.port for value in results)
    given, named = (g.map_args(some, _named) for some in (args, dict(kwargs)))
    name, groups = f"{composer.prefix}!", tuple(composer.groups)
    return Assembly(name, operation, given, named, groups, outputs, composer.layer, source)


def _named(leaf: Any) -> Any:
    if isinstance(leaf, Value):
        return leaf.port
    return Array(leaf.name) if isinstance(leaf, Weight) else leaf
