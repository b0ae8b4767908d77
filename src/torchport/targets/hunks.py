"""How a source differs from what was generated, as a reader wants to see it."""

from __future__ import annotations

import difflib


def edited_lines(generated: str, edited: str) -> tuple[int, ...]:
    """The numbers of the lines of `edited` that are other ones; where some are gone, that of the line behind them."""
    before, now = generated.splitlines(), edited.splitlines()
    found: set[int] = set()
    for kind, _, _, first, end in difflib.SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        if kind != "equal":
            found.update(range(first + 1, max(end, first + 1) + 1))
    return tuple(sorted(line for line in found if line <= len(now)))


def hunks(generated: str, edited: str, name: str) -> tuple[str, ...]:
    """The hunks of a unified diff, each with its line numbers; none if the two are the same."""
    lines = difflib.unified_diff(
        generated.splitlines(), edited.splitlines(), f"{name} (generated)", name, n=1, lineterm=""
    )
    found: list[list[str]] = []
    for line in list(lines)[2:]:
        if line.startswith("@@"):
            found.append([])
        found[-1].append(line)
    return tuple("\n".join(hunk) for hunk in found)
