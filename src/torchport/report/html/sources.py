"""The user's Python and the artifact's source as highlighted lines, each line once, however many layers point at it.

In: the lines that layers and operations came from, and the source map of the artifact. Out: stretches of lines by file,
the stretch of each module's `forward`, and the lines of each unit of the artifact. What cannot be read is left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torchport.capture.graph import Graph
from torchport.report.escaping import escaped_lines
from torchport.report.places import shown
from torchport.targets.base import SourceMap, Stretch

AROUND = 5
LONGEST_FORWARD = 80
LARGEST_FILE = 2_000_000


def place(source: str | None) -> tuple[str, int] | None:
    """The file and the line of a source such as "file.py:12"."""
    file, colon, line = (source or "").rpartition(":")
    return (file, int(line)) if colon and file and line.isdigit() else None


class Files:
    """The stretches of Python files that the page shows."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        self._wanted: dict[str, set[int]] = {}

    def around(self, source: str | None) -> None:
        """Adds the lines around a place."""
        found = place(source)
        if found is not None:
            self._want(found[0], found[1] - AROUND, found[1] + AROUND)

    def forward(self, source: str | None) -> list[int] | None:
        """Adds the function that begins at a place, and gives its first and last line."""
        found = place(source)
        if found is None:
            return None
        file, first = found
        lines = self._read(file)[first - 1 :]
        if not lines:
            return None
        last = first + min(_length(lines), LONGEST_FORWARD) - 1
        self._want(file, first, last)
        return [first, last]

    def highlighted(self) -> dict[str, list[list[Any]]]:
        """The stretches of each file: the number of the first line, and the lines as HTML."""
        return {
            shown(file) or file: self._stretches(file, wanted)
            for file, wanted in self._wanted.items()
            if wanted
        }

    def _want(self, file: str, first: int, last: int) -> None:
        there = range(max(1, first), min(last, len(self._read(file))) + 1)
        self._wanted.setdefault(file, set()).update(there)

    def _stretches(self, file: str, wanted: set[int]) -> list[list[Any]]:
        html = highlight("".join(self._lines[file]), "python")
        stretches: list[list[Any]] = []
        for number in sorted(wanted):
            if not stretches or number != stretches[-1][0] + len(stretches[-1][1]):
                stretches.append([number, []])
            stretches[-1][1].append(html[number - 1] if number <= len(html) else "")
        return stretches

    def _read(self, file: str) -> list[str]:
        if file not in self._lines:
            self._lines[file] = _python_lines(Path(file))
        return self._lines[file]


def _python_lines(path: Path) -> list[str]:
    # A report may come from anywhere: only Python files are shown, so that it cannot name others.
    if path.suffix != ".py":
        return []
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_FILE:
            return []
        return path.read_text(encoding="utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError, ValueError):
        return []


def _length(lines: list[str]) -> int:
    try:
        return len(inspect.getblock(lines))
    except (IndentationError, SyntaxError):
        return 1


def excerpts(graph: Graph | None, sources: Iterable[str | None]) -> dict[str, Any]:
    """The stretches of the files, and the first and last line of each `forward` by the place at which it begins."""
    files = Files()
    for source in dict.fromkeys(sources):
        files.around(source)
    forwards = {}
    for module in graph.modules.values() if graph is not None else ():
        at = shown(module.source)
        if at is not None and at not in forwards:
            forwards[at] = files.forward(module.source)
        for node in module.nodes:
            files.around(node.source)
    return {"files": files.highlighted(), "forwards": {k: v for k, v in forwards.items() if v is not None}}


def shown_at(sources: Iterable[str | None], most: int) -> list[tuple[str, list[tuple[int, str, bool]]]]:
    """The first places that can be read: each with its lines, their numbers, and whether a line is the one meant."""
    blocks = []
    for source in dict.fromkeys(sources):
        files = Files()
        files.around(source)
        found = place(source)
        for stretch in files.highlighted().values():
            assert source is not None and found is not None
            first, lines = stretch[0]
            marked = [(n, line, n == found[1]) for n, line in enumerate(lines, first)]
            blocks.append((shown(source) or source, marked))
        if len(blocks) == most:
            break
    return blocks


def ported(sources: SourceMap | None) -> dict[str, Any] | None:
    """The source of the artifact: its language, and for each unit its file and its stretches, highlighted."""
    if sources is None:
        return None
    units = {
        name: {"file": stretches[0].file, "lines": [_highlighted(one, sources.lexer) for one in stretches]}
        for name, stretches in sources.units.items()
    }
    return {"language": sources.language, "units": units, "edited": list(sources.edited)}


def _highlighted(stretch: Stretch, lexer: str) -> list[Any]:
    """The number of the first line, and the lines as HTML."""
    return [stretch.first, highlight("\n".join(stretch.lines), lexer)]


def highlight(text: str, language: str) -> list[str]:
    """The lines as HTML in which only pygments' spans are markup."""
    from pygments import highlight as run
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    # Without stripnl=False, empty lines at the start would be dropped and every line number would be off.
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    html: str = run(escaped_lines(text), lexer, HtmlFormatter(nowrap=True))
    return html.split("\n")
