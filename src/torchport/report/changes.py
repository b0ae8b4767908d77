"""A `Change` between two runs as text and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchport.errors import UsageError
from torchport.report import terminal
from torchport.report.against import Change, Moved, RunSummary, moved
from torchport.report.formats import FORMATS
from torchport.report.markdown import code, left_out, plain, table
from torchport.report.printable import printable

ROWS, BETTER = 12, 3
NAMES = 20
_STYLES = {"worse": "bold red", "better": "bold green", "same": "bold"}
_VERDICTS = {True: "pass", False: "FAIL", None: ""}
_SIGNS = {"worse": "❌", "better": "✅", "same": "="}


def renderer(name: str) -> Callable[[Change], str]:
    """The function that writes a change in the format of that name; raises for a format that cannot show one."""
    if name not in _FORMATS:
        message = f"--against has no {name} format" if name in FORMATS else f"there is no format {name!r}"
        raise UsageError("TP0801", message, fix=f"With --against, give one of {', '.join(_FORMATS)}.")
    return _FORMATS[name]


def text_of(change: Change) -> str:
    """The text that `render` prints, without colour."""
    return terminal.plain(lambda console: render(change, console))


def render(change: Change, console: Console) -> None:
    """Prints `change`, what got worse first."""
    change = printable(change)
    grid = Table.grid(padding=(0, 2, 0, 0))
    word = Text(change.status.upper(), style=_STYLES[change.status])
    grid.add_row(word, Text(_headline(change), style="bold"))
    for sentence in _first(change.worse or change.better):
        grid.add_row("", Text(sentence, overflow="fold"))
    console.print(grid)
    facts = Table.grid(padding=(0, 2, 0, 0))
    for label, fact in _facts(change):
        facts.add_row(Text(label, style="bold"), Text(fact, overflow="fold"))
    console.print(Padding(facts, (1, 0, 0, 0)))
    for heading, errors, rows in _errors(change):
        _print_errors(heading, errors, rows, console)


def _print_errors(heading: str, errors: tuple[Moved, ...], rows: int, console: Console) -> None:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for error in errors[:rows]:
        verdict = Text(_VERDICTS[error.passed], style="green" if error.passed else "bold red")
        grid.add_row("", verdict, Text(error.layer, overflow="fold"), error.kind, moved(error))
    console.print(Padding(Text(heading, style="bold"), (1, 0, 0, 0)))
    console.print(grid)
    if len(errors) > rows:
        console.print(f"  and {len(errors) - rows} more, all of them in the JSON")


def markdown_of(change: Change) -> str:
    change = printable(change)
    parts = [f"## {_SIGNS[change.status]} {change.status.upper()}: {plain(_headline(change))}"]
    parts.append("\n".join(f"- {plain(sentence)}" for sentence in _first(change.worse or change.better)))
    parts.append("\n".join(f"- **{label}**: {plain(fact)}" for label, fact in _facts(change)))
    for heading, errors, most in _errors(change):
        rows = [
            (_VERDICTS[error.passed], code(error.layer), error.kind, moved(error)) for error in errors[:most]
        ]
        more = left_out(len(errors) - len(rows), "errors", "in the JSON")
        parts.append(table(f"### {heading}", ("", "Layer", "Error", "Before -> now"), rows, more))
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(change: Change) -> str:
    before, now = change.before, change.now
    return f"{now.model} to {now.target}: {_summary(before)} before, {_summary(now)} now"


def _summary(side: RunSummary) -> str:
    if side.status == "fail" and side.failed:
        return f"fail ({side.failed} of {side.layers} layers)"
    return side.status


def _facts(change: Change) -> list[tuple[str, str]]:
    before, now = change.before, change.now
    facts = [
        ("Culprit", f"{before.culprit or 'none'} -> {now.culprit or 'none'}"),
        ("Seconds", f"{_seconds(before)} -> {_seconds(now)}"),
    ]
    # A fact that is the same in both runs is left out.
    facts += [
        (label, f"{was} -> {is_now}")
        for label, was, is_now in (
            ("Model", before.model, now.model),
            ("Target", before.target, now.target),
            ("Rule", before.rule or "none", now.rule or "none"),
        )
        if was != is_now
    ]
    facts += [
        (label, f"{len(names)}: {', '.join(_first(names))}")
        for label, names in (("Added", change.added), ("Removed", change.removed))
        if names
    ]
    if change.worse and change.better:
        facts.append(("Better", "; ".join(_first(change.better))))
    return facts


def _seconds(side: RunSummary) -> str:
    return "not timed" if side.seconds is None else f"{side.seconds:.1f}"


def _errors(change: Change) -> list[tuple[str, tuple[Moved, ...], int]]:
    """The errors that have changed under their headings, and how many of them are shown: few of those that shrank."""
    shrunk = sorted(change.shrunk, key=_shrinkage, reverse=True)
    found = (
        (f"Errors that grew by more than a factor of {change.factor:g}", change.grown, ROWS),
        (f"Errors that shrank by more than a factor of {change.factor:g}, the most first", shrunk, BETTER),
    )
    return [(heading, tuple(errors), rows) for heading, errors, rows in found if errors]


def _shrinkage(error: Moved) -> float:
    return math.inf if error.now == 0 else error.before / error.now


def _first(sentences: tuple[str, ...]) -> list[str]:
    more = len(sentences) - NAMES
    return [*sentences[:NAMES], *([f"and {more} more, all of them in the JSON"] if more > 0 else [])]


_FORMATS: dict[str, Callable[[Change], str]] = {
    "text": text_of,
    "json": lambda change: change.to_json() + "\n",
    "markdown": markdown_of,
}
