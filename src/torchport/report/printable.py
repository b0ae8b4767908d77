"""A report as renderers for people show it: control characters are written out, and notes name lines by short paths.

In: a report, or a comparison of two. Out: the same with other texts.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from torchport.report.escaping import escaped, escaped_lines
from torchport.report.places import with_short_places

Shown = TypeVar("Shown", bound=BaseModel)
_OF_SEVERAL_LINES = frozenset(("edits", "notes", "reason", "stopped"))
"""The fields whose text may have several lines."""


def printable(shown: Shown) -> Shown:
    """A report with every text in it escaped: what a renderer for people begins with."""
    changed = {
        name: now
        for name in type(shown).model_fields
        if (now := _printable(was := getattr(shown, name), name)) is not was
    }
    return shown.model_copy(update=changed) if changed else shown


def _printable(value: Any, field: str) -> Any:
    if isinstance(value, str):
        text = with_short_places(value) if field == "notes" else value
        return escaped_lines(text) if field in _OF_SEVERAL_LINES else escaped(text)
    if isinstance(value, BaseModel):
        return printable(value)
    if isinstance(value, tuple) and value and isinstance(value[0], str | BaseModel):
        made = tuple(_printable(one, field) for one in value)
        return made if any(now is not was for now, was in zip(made, value, strict=True)) else value
    if isinstance(value, dict):
        pairs = {_printable(name, field): _printable(one, field) for name, one in value.items()}
        return pairs if pairs != value else value
    return value
