"""What the files of this package need of torch's private parts, so that `doctor` can say what has moved."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from functools import reduce
from importlib import import_module

from torchport.debug import internals


@dataclass(frozen=True)
class Need:
    name: str
    module: str
    attribute: str
    """What is needed in the module; parts of parts are joined by dots."""
    used_for: str
    """What does not work without it."""


def needs() -> list[Need]:
    """The NEEDS of all files of this package."""
    files = sorted(one.name for one in pkgutil.iter_modules(internals.__path__) if one.name != "needs")
    return [need for file in files for need in import_module(f"{internals.__name__}.{file}").NEEDS]


def missing() -> list[Need]:
    """What this version of torch does not have where it is looked for."""
    return [need for need in needs() if not _is_there(need)]


def _is_there(need: Need) -> bool:
    try:
        reduce(getattr, need.attribute.split("."), import_module(need.module))
    except (ImportError, AttributeError):
        return False
    return True
