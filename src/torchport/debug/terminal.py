"""Debugging runs on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchport.debug import phrases
from torchport.debug.report import DebugReport
from torchport.explain.repro import counted

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
        ("kernels", phrases.kernel_diff(report.kernel_diff)),
    ]
    culprit = None if report.kernel_diff is None else report.kernel_diff.culprit
    if culprit is not None and culprit.reason:
        found.append(("why", culprit.reason))
    violations = report.constraints.violations
    if report.constraints.checked and not violations:
        found.append(("constraints", f"none violated: {', '.join(report.constraints.checked)}"))
    found += [("violated", str(violation)) for violation in violations[:3]]
    if len(violations) > 3:
        found.append(("", f"and {len(violations) - 3} more: torchport debug analyze --type constraints"))
    found += [("failed", f"{one.step}: {one.message}") for one in report.failures]
    found += [("note", note) for note in report.notes]
    if report.folder is not None:
        found.append(("folder", report.folder))
    return found


def constraints(report: DebugReport, console: Console) -> None:
    """Every violation: what, which operation, where."""
    violations = report.constraints.violations
    console.print(Text(f"{report.model}: {counted(len(violations), 'violation')}", style="bold"))
    if report.constraints.checked:
        console.print(Text(f"checked: {', '.join(report.constraints.checked)}"))
    rows = [
        (one.constraint, one.message, one.op, one.module, one.source or "", f"{one.graph} {one.stage}")
        for one in violations
    ]
    _table(("Constraint", "What", "Operation", "Module", "Line", "Graph"), rows, console)
    for note in report.constraints.notes:
        console.print(Text(note))


def guards(report: DebugReport, console: Console) -> None:
    """Graphs, breaks and recompilations with their reasons, then the guards of each graph."""
    if report.guards is None:
        console.print(Text("Guards were not looked at in this run."))
    else:
        console.print(Text(report.guards.summary(guards=True)))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    if not rows:
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Padding(table, (1, 0, 0, 0)))
