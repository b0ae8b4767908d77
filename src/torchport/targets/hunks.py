"""How a source differs from what was generated, as a reader wants to see it."""

from __future__ import annotations

import difflib


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
