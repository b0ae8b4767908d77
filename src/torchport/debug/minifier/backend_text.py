"""A backend as a script can have it: by its name, by an import, or by the text that makes it again."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from torchport.errors import UsageError


@dataclass(frozen=True)
class ObjectText:
    imports: tuple[str, ...]
    expression: str


@dataclass(frozen=True)
class BackendOfFile:
    """A backend that `file.py:NAME` names: what is there, or what it makes when it is called without arguments."""

    spec: str
    backend: Callable[..., Any] = field(compare=False)
    is_made: bool
    """Whether the name must be called to have it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.backend(*args, **kwargs)

    def text(self) -> ObjectText:
        place, _, name = self.spec.rpartition(":")
        expression = f"{name}()" if self.is_made else name
        if not place.endswith(".py"):
            return ObjectText(_imports(place, name), expression)
        file = Path(place).resolve()
        return ObjectText(
            (f"sys.path.insert(0, {str(file.parent)!r})", f"from {file.stem} import {name}"), expression
        )


def text_of(value: str | Callable[..., Any]) -> ObjectText:
    """How to have a backend, or a function of the user's, in another process. UsageError if there is no way."""
    if isinstance(value, str):
        return ObjectText((), repr(value))
    if isinstance(value, BackendOfFile):
        return value.text()
    module, name = _home(value)
    if name is not None and _found(module, name) is value:
        return ObjectText(_imports(module, name.partition(".")[0]), name)
    kind = type(value)
    if _found(kind.__module__, kind.__qualname__) is kind and _is_made_again(value):
        return ObjectText(_imports(kind.__module__, kind.__qualname__.partition(".")[0]), repr(value))
    raise UsageError(
        "TP1045",
        f"{value!r} cannot be written into a script",
        fix="Put it at the top level of a module that can be imported, or give the name of a registered backend.",
    )


def _home(value: Any) -> tuple[str, str | None]:
    return getattr(value, "__module__", "") or "", getattr(value, "__qualname__", None)


def _found(module: str, name: str) -> Any:
    """What an import would give; None if it cannot be imported, as nothing can that is only in the main script."""
    if module in ("", "__main__") or "<" in name:
        return None
    try:
        return reduce(getattr, name.split("."), import_module(module))
    except (ImportError, AttributeError):
        return None


def _is_made_again(value: Any) -> bool:
    """Whether the repr of an object, such as of a dataclass, is an expression for an equal one."""
    try:
        return bool(eval(repr(value), vars(import_module(type(value).__module__)).copy()) == value)
    except Exception:
        return False


def _imports(module: str, name: str) -> tuple[str, ...]:
    top = sys.modules[module.partition(".")[0]]
    file = getattr(top, "__file__", None)
    lines = (f"from {module} import {name}",)
    if file is None:
        return lines
    folder = Path(file).resolve().parent
    root = folder.parent if hasattr(top, "__path__") else folder
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    if root in installed:
        return lines
    return (f"sys.path.insert(0, {str(root)!r})", *lines)
