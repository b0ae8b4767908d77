"""Amounts of memory as people write them: `16GiB`, `512MB`, or plain bytes."""

from __future__ import annotations

import re

_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{middle}B": base**power
    for power, prefix in enumerate("KMGT", start=1)
    for middle, base in (("", 1000), ("i", 1024))
}
_FORM = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_SPELLED = {unit.lower(): number for unit, number in _UNITS.items()}


def byte_count(given: int | str) -> int:
    """The number of bytes; a ValueError if the text is no amount of memory."""
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise ValueError(
            f"{given!r} is no amount of memory: give bytes as a whole number, or text such as '16GiB'"
        )
    if isinstance(given, int):
        amount = given
    else:
        match = _FORM.fullmatch(given)
        if match is None or match[2].lower() not in _SPELLED:
            raise ValueError(f"{given!r} is no amount of memory: write bytes, or 16GiB, 512MB, 1.5GB")
        amount = round(float(match[1]) * _SPELLED[match[2].lower()])
    if amount <= 0:
        raise ValueError(f"{given!r} is no amount of memory: it must be more than nothing")
    return amount


def readable(count: int) -> str:
    """An amount of memory for a reader: `1.5 GiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def more_than(count: int, limit: int) -> tuple[str, str]:
    """Two amounts of which one is more than the other, for a reader; in bytes if they would read alike."""
    texts = readable(count), readable(limit)
    return texts if texts[0] != texts[1] else (f"{count:,} B", f"{limit:,} B")
