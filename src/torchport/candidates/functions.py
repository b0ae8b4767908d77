"""A function as a module without parts, and the modules that a function works with."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from torch import nn

_FARTHEST = 4
"""How many functions may lie between a function and a module that it works with."""


class FunctionModule(nn.Module):
    """A function as a module; one that is a module's method has the parameters of that module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "owners", tuple(dict.fromkeys(_modules_behind(function))))
        owner = getattr(function, "__self__", None)
        if isinstance(owner, nn.Module):
            object.__setattr__(self, "named_parameters", owner.named_parameters)

    function: Callable[..., Any]
    owners: tuple[nn.Module, ...]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def _modules_behind(value: Any, far: int = 0) -> Iterator[nn.Module]:
    """The modules that a function can come to: its owner, and those in its closure or among the globals it names."""
    if isinstance(value, nn.Module):
        yield value
    elif far < _FARTHEST:
        for other in _within_reach(value):
            yield from _modules_behind(other, far + 1)


def _within_reach(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, FunctionType):
        return _within_reach_of_function(value)
    is_object = callable(value) and not isinstance(value, type) and hasattr(value, "__dict__")
    return list(vars(value).values()) if is_object else []


def _within_reach_of_function(function: FunctionType) -> list[Any]:
    original = inspect.unwrap(function)
    if not isinstance(original, FunctionType):
        return [original]
    if original.__module__ is not None and original.__module__.partition(".")[0] == "torch":
        return []
    known = inspect.getclosurevars(original)
    defaults = [*(original.__defaults__ or ()), *(original.__kwdefaults__ or {}).values()]
    return [*known.nonlocals.values(), *known.globals.values(), *defaults]
