"""Names as they are shown: a tensor or a layer may be called anything, also what a terminal takes for a command."""

from __future__ import annotations


def escaped(text: str) -> str:
    """The text in which whatever cannot be printed is written as Python would write it: `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)


def escaped_lines(text: str) -> str:
    """The same for a text of several lines, which stay, and so do their tabs."""
    if text.isprintable():
        return text
    return "".join(one if one in "\n\t" else escaped(one) for one in text)
