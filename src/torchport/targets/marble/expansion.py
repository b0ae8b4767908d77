"""One operation as groups of neurons, by its recipe, and the assembly that they make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.targets.marble.composer import Composer, Unsupported, Value, Weight
from torchport.targets.marble.groups import Array, Assembly
from torchport.targets.marble.recipes import RECIPES


def expanded(
    composer: Composer, operation: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[Value]:
    """The results of an operation, of which the composer now has the groups; Unsupported if no recipe has them."""
    recipe = RECIPES.get(operation)
    if recipe is None:
        raise Unsupported("which no recipe expresses as neurons")
    made = recipe(composer, **operations.given(operation, args, kwargs))
    return made if isinstance(made, list) else [made]


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
