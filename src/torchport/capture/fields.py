"""The numbers of a model's configuration: fields of a config object, and arguments of constructors and factories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LONGEST = 8
"""How many numbers a list has at most that is a field."""


def values_of(config: object) -> dict[str, Any]:
    """The fields of a config object, as Hugging Face models and dataclasses have them."""
    if isinstance(config, Mapping):
        return dict(config)
    to_dict = getattr(config, "to_dict", None)
    values = to_dict() if callable(to_dict) else getattr(config, "__dict__", {})
    return {str(name): value for name, value in values.items()}


def plain_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are numbers, or short lists of whole numbers."""
    return {
        name: list(value) if isinstance(value, list | tuple) else value
        for name, value in values.items()
        if is_number(value) or _is_list(value)
    }


def numbers_of(config: Mapping[str, Any]) -> dict[str, int | float]:
    """Every number under a name of its own: `depths[0]` for the first item of a list."""
    found: dict[str, int | float] = {}
    for name, value in config.items():
        if is_number(value):
            found[name] = value
        elif _is_list(value):
            found |= {f"{name}[{index}]": item for index, item in enumerate(value)}
    return found


def with_numbers(config: Mapping[str, Any], numbers: Mapping[str, int | float]) -> dict[str, Any]:
    """The fields with other numbers, which bear the names that `numbers_of` gives them."""
    changed: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, list | tuple):
            items = [numbers.get(f"{name}[{index}]", item) for index, item in enumerate(value)]
            changed[name] = type(value)(items)
        else:
            changed[name] = numbers.get(name, value)
    return changed


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    """Whether a field is a list of whole numbers, such as the depths of a model's stages."""
    return (
        isinstance(value, list | tuple)
        and 0 < len(value) <= _LONGEST
        and all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    )
