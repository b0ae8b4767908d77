"""How the mock backend is set: by options, then by environment variables, then by defaults.

MOCK_STRICT       1 stops at a violated constraint, 0 logs it and goes on; 1 by default.
MOCK_ALIGNMENT    what the last axis of every tensor is a multiple of; 1, which accepts everything, by default.
MOCK_MAX_MEMORY   the most that one tensor takes, in bytes or as 16GiB, 512MB; 16 GiB by default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from torchport.debug.constraints.byte_sizes import byte_count
from torchport.errors import UsageError

Value = TypeVar("Value")
_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class MockSettings:
    strict: bool = True
    alignment: int = 1
    max_memory: int = 16 * 2**30
    """In bytes, for one tensor."""


def mock_settings(
    strict: bool | str | int | None = None,
    alignment: int | str | None = None,
    max_memory: int | str | None = None,
    *,
    environment: Mapping[str, str] | None = None,
) -> MockSettings:
    """The settings in force. What is None comes from the environment; an empty variable is as good as not set."""
    variables = os.environ if environment is None else environment

    def value(option: str, given: Any, variable: str, read: Callable[[Any], Value], default: Value) -> Value:
        name, text = (option, given) if given is not None else (variable, variables.get(variable, "").strip())
        if given is None and text == "":
            return default
        try:
            return read(text)
        except ValueError as error:
            raise UsageError("TP1002", f"{name}: {error}") from None

    defaults = MockSettings()
    return MockSettings(
        strict=value("strict", strict, "MOCK_STRICT", _switch, defaults.strict),
        alignment=value("alignment", alignment, "MOCK_ALIGNMENT", _alignment, defaults.alignment),
        max_memory=value("max_memory", max_memory, "MOCK_MAX_MEMORY", byte_count, defaults.max_memory),
    )


def _switch(given: bool | str | int) -> bool:
    text = str(int(given)) if isinstance(given, bool) else str(given).lower()
    if text in _YES:
        return True
    if text in _NO:
        return False
    raise ValueError(f"{given!r} is neither 1 nor 0")


def _alignment(given: int | str) -> int:
    try:
        if isinstance(given, bool | float):
            raise ValueError
        number = int(given)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise ValueError(f"{given!r} is no whole number of at least 1")
    return number
