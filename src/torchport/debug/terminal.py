"""Debugging runs on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import shorten

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchport.debug import phrases
from torchport.debug.report import NOT_KEPT, DebugReport
from torchport.explain.repro import counted

SHOWN = 3
"""How many breaks, violations and notes on kernels are listed in short."""
LONGEST_NOTE = 240
"""How many characters of a note are printed: torch's warnings are long. The report has all of it."""
_STYLES = {"pass": "bold green", "fail": "bold red", "error": "bold red"}


def summary(report: DebugReport, console: Console) -> None:
    """The answer first, then graphs, breaks, constraints and kernels, each in a line or a few."""
    word = Text(phrases.WORDS[report.status], style=_STYLES[report.status])
    console.print(Text.assemble(word, f"  {report.model} under {report.backend}: {phrases.headline(report)}"))
    facts = Table.grid(padding=(0, 2, 0, 0))
    for name, text in _facts(report):
        facts.add_row(Text(f"  {name}", style="dim"), Text(text, overflow="fold"))
    console.print(facts)


def _facts(report: DebugReport) -> list[tuple[str, str]]:
    found = [
        ("graphs", f"{counted(report.summary.total_graphs, 'graph')}, {phrases.breaks(report)}"),
        *_breaks(report),
        ("kernels", phrases.kernel_diff(report.kernel_diff)),
    ]
    culprit = None if report.kernel_diff is None else report.kernel_diff.culprit
    if culprit is not None and culprit.reason:
        found.append(("why", culprit.reason))
    violations = report.constraints.violations
    if (kept := phrases.kept(report)) is not None:
        found.append(("constraints", f"none violated: {kept}"))
    found += [("violated", str(violation)) for violation in violations[:SHOWN]]
    if len(violations) > SHOWN:
        found.append(("", f"and {len(violations) - SHOWN} more: {_analyze(report, 'constraints')}"))
    found += [("failed", phrases.failure(one)) for one in report.failures]
    found += [("note", note) for note in (*_notes(report), *_notes_on_kernels(report))]
    if report.folder is not None:
        found.append(("folder", report.folder))
    return found


def _breaks(report: DebugReport) -> Iterator[tuple[str, str]]:
    """The first breaks, each with its line and Dynamo's name for the reason, and where more is said of them."""
    breaks = () if report.guards is None else report.guards.breaks
    for one in breaks[:SHOWN]:
        yield "break", f"{one.place}  {one.place.code}  ({one.reason.title})"
    if breaks:
        more = f"and {len(breaks) - SHOWN} more; " if len(breaks) > SHOWN else ""
        yield "", f"{more}what to do: {_analyze(report, 'guards')}"


def _notes(report: DebugReport) -> Iterator[str]:
    """The notes on the run. If a disk is full, each file that it refused has one: the first say enough."""
    refused = [note for note in report.notes if note.startswith(NOT_KEPT)]
    for note in report.notes:
        if note not in refused[SHOWN:]:
            yield shorten(note, LONGEST_NOTE, placeholder=" …")
    if len(refused) > SHOWN:
        yield f"and {counted(len(refused) - SHOWN, 'more file')} that could not be kept"


def _notes_on_kernels(report: DebugReport) -> list[str]:
    """What limits the verdict on the kernels; that the fusion of a graph was changed comes last, and may be cut."""
    notes = sorted(
        report.kernel_diff.notes if report.kernel_diff else (), key=lambda one: one.startswith("graph ")
    )
    if len(notes) <= SHOWN:
        return notes
    return [*notes[:SHOWN], f"and {len(notes) - SHOWN} more on kernels, in the report"]


def _analyze(report: DebugReport, part: str) -> str:
    return f"torchport debug analyze {report.folder or 'RUN'} --type {part}"


def constraints(report: DebugReport, console: Console) -> None:
    """Every violation: what, which operation, where."""
    violations = report.constraints.violations
    console.print(Text(f"{report.model}: {counted(len(violations), 'violation')}", style="bold"))
    if report.constraints.checked:
        console.print(Text(f"checked: {', '.join(report.constraints.checked)}"))
    rows = [
        (
            one.constraint,
            f"{one.message}\n→ {one.fix}" if one.fix else one.message,
            one.op,
            one.module,
            one.source or "",
            phrases.graph(one.graph, one.stage),
        )
        for one in violations
    ]
    _table(("Constraint", "What", "Operation", "Module", "Line", "Graph"), rows, console)
    for note in report.constraints.notes:
        console.print(Text(note))


def guards(report: DebugReport, console: Console) -> None:
    """Graphs, breaks and recompilations with their reasons, then the guards of each graph."""
    if report.guards is None:
        console.print(Text("Guards were not looked at in this run."))
        return
    console.print(Text(report.guards.summary()))
    for graph in report.guards.compilations:
        if graph.guards:
            console.print(Text(f"guards of {graph.compile_id}, {graph.name}", style="bold"))
        for guard in graph.guards:
            at = f"  ({guard.cause})" if guard.cause else ""
            console.print(Text(f"  {guard.kind} {guard.source}{at}".rstrip()))
            for condition in guard.code:
                console.print(Padding(Text(condition, style="dim"), (0, 0, 0, 6)))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Padding(table, (1, 0, 0, 0)))
