"""Arguments in messages: as Python writes them or, on the command line, as flags.

In: texts in which an argument stands as `[[allow_random=True]]` or `[[out]]`. Out: the same with `allow_random=True`
and `out`, or with `--allow-random` and `--out`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

_ARGUMENT = re.compile(r"\[\[(\w+)(?:=([^\]]+))?\]\]")
_on_the_command_line = [False]


@contextmanager
def as_flags() -> Iterator[None]:
    """Within, a user gives arguments by flags. It holds for all threads, since a process has one command line."""
    before, _on_the_command_line[0] = _on_the_command_line[0], True
    try:
        yield
    finally:
        _on_the_command_line[0] = before


def spelled(text: str) -> str:
    """The text with the arguments in it as the user can give them here."""
    return _ARGUMENT.sub(_flag if _on_the_command_line[0] else _keyword, text)


def _keyword(found: re.Match[str]) -> str:
    name, value = found.groups()
    return name if value is None else f"{name}={value}"


def _flag(found: re.Match[str]) -> str:
    name, value = found.groups()
    flag = f"--{name.replace('_', '-')}"
    return flag if value in (None, "True") else f"{flag} {value.strip(chr(34))}"
