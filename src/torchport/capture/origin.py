"""Where a model comes from: the factory that made it, and the arguments of its constructor.

They are noted while a SPEC's callable runs, so that the model can be made again with other sizes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch


@dataclass(frozen=True)
class Origin:
    """What made a model."""

    factory: Callable[..., Any] | None = None
    """A function that gives the model and its inputs, and takes numbers that all have defaults."""
    arguments: dict[str, Any] | None = None
    """The arguments that the model's class was called with, and the defaults of the others."""


_ORIGINS: WeakKeyDictionary[torch.nn.Module, Origin] = WeakKeyDictionary()


def origin_of(model: torch.nn.Module) -> Origin:
    return _ORIGINS.get(model, Origin())


def remember(model: torch.nn.Module, origin: Origin) -> None:
    _ORIGINS[model] = origin


@contextmanager
def constructors_noted() -> Iterator[dict[int, dict[str, Any]]]:
    """Within, the arguments of each module's constructor are noted by the module's id."""
    noted: dict[int, dict[str, Any]] = {}
    original = torch.nn.Module.__init__

    def init(self: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        frame, own = sys._getframe(1), None
        while frame is not None and frame.f_code.co_name == "__init__" and _first(frame) is self:
            own, frame = frame, frame.f_back  # type: ignore[assignment]
        if own is not None:
            noted[id(self)] = _arguments(own)
        original(self, *args, **kwargs)

    torch.nn.Module.__init__ = init  # type: ignore[method-assign]
    try:
        yield noted
    finally:
        torch.nn.Module.__init__ = original  # type: ignore[method-assign]


def _first(frame: Any) -> Any:
    names = frame.f_code.co_varnames
    return frame.f_locals.get(names[0]) if names else None


def _arguments(frame: Any) -> dict[str, Any]:
    """The arguments of a constructor at its call, by name."""
    values = inspect.getargvalues(frame)
    found = {name: values.locals[name] for name in values.args[1:] if name in values.locals}
    count = frame.f_code.co_argcount
    keyword_only = frame.f_code.co_varnames[count : count + frame.f_code.co_kwonlyargcount]
    found |= {name: values.locals[name] for name in keyword_only if name in values.locals}
    if values.varargs and values.locals.get(values.varargs):
        return {}
    return found | dict(values.locals.get(values.keywords) or {} if values.keywords else {})
