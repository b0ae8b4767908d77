"""A report on the terminal: the verdict first, then the culprit, the worst layers, the files and what to do next."""

import io
import shlex
from collections.abc import Callable
from pathlib import Path

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchport.report import phrases
from torchport.report.places import shown
from torchport.report.printable import printable
from torchport.runs.report import Report
from torchport.runs.run import Run

WIDTH = 110
WORST = 8
TODOS = 10
EDITED_LINES = 40
ROOM_FOR_TYPE = 96
_STYLES = {"pass": "bold green", "fail": "bold red"}
_OF_VERDICTS = {"pass": "green", "FAIL": "bold red", "unproven": "yellow"}
_OF_A_DIFF = {"+": "green", "-": "red", "@": "cyan"}


def text_of(run: Run) -> str:
    """The text that `render` prints, without colour."""
    return plain(lambda console: render(run.report, console, run.folder))


def plain(draw: Callable[[Console], None]) -> str:
    """The text that `draw` prints, without colour and without spaces at the ends of lines."""
    stream = io.StringIO()
    draw(Console(file=stream, width=WIDTH, highlight=False, force_terminal=False, color_system=None))
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def render(report: Report, console: Console, folder: Path | None = None) -> None:
    """Prints `report`. The console decides on colour: there is none off a terminal or with NO_COLOR.

    `folder` is the folder of the run, if the run was moved after the report was written.
    """
    report = printable(report)
    _verdict(report, console)
    _culprit(report, console)
    _edits(report, console)
    _worst_layers(report, console)
    _control_flow(report, console)
    _todos(report, console)
    _files(report, console, folder)


def _verdict(report: Report, console: Console) -> None:
    style = _STYLES.get(report.status, "bold yellow")
    table = Table.grid(padding=(0, 2, 0, 0))
    word = Text(phrases.word(report), style=style)
    table.add_row(word, Text(phrases.headline(report), style="bold"))
    if (measured := phrases.measure(report)) is not None:
        table.add_row("", Text(measured))
    if report.outputs is not None:
        table.add_row("", Text(f"Outputs: {phrases.outputs(report.outputs)}"))
    for note in report.notes:
        table.add_row("", Text(f"Note: {note}", style="yellow"))
    console.print(table)


def _culprit(report: Report, console: Console) -> None:
    divergence = report.first_divergence
    if divergence is None:
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    name = Text.assemble((divergence.place, "bold red"), f"  {divergence.type}")
    table.add_row(Text("Culprit", style="bold"), name)
    for label, fact in phrases.facts(report):
        table.add_row(f"  {label}", Text(fact, overflow="fold"))
    console.print(Padding(table, (1, 0, 0, 0)))


def _edits(report: Report, console: Console) -> None:
    edits = report.first_divergence.edits if report.first_divergence else ()
    if not edits:
        return
    lines = [line for hunk in edits for line in hunk.splitlines()]
    console.print(Padding(Text("The port's source is not what was generated", style="bold"), (1, 0, 0, 0)))
    for line in lines[:EDITED_LINES]:
        console.print(Text(f"  {line}", style=_OF_A_DIFF.get(line[:1], ""), overflow="fold"))
    if len(lines) > EDITED_LINES:
        console.print(f"  and {len(lines) - EDITED_LINES} more lines, all of them in the JSON")


def _worst_layers(report: Report, console: Console) -> None:
    worst = phrases.worst(report, WORST)
    if not worst:
        return
    title = phrases.title_of_worst(worst)
    is_wide = console.width >= ROOM_FOR_TYPE
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column(title, overflow="fold")
    for heading in ("Own error", *(["Limit"] if is_wide else []), "of limit", "Chained"):
        table.add_column(heading, justify="right", no_wrap=True)
    if is_wide:
        table.add_column("Type", no_wrap=True, max_width=24)
    for layer, name in worst:
        cells = [
            Text(phrases.verdict(layer), style=_OF_VERDICTS[phrases.verdict(layer)]),
            Text(name),
            Text(phrases.own_error(layer.own)),
            *([Text(phrases.limit(layer.own))] if is_wide else []),
            Text(phrases.share_of_limit(layer.own)),
            Text(phrases.largest(layer.chained)),
        ]
        table.add_row(*cells, *([Text(layer.type.rpartition(".")[2])] if is_wide else []))
    console.print(Padding(table, (1, 0, 1, 0)))


def _control_flow(report: Report, console: Console) -> None:
    if not report.control_flow:
        return
    console.print(Text("Control flow", style="bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    for flow in report.control_flow:
        table.add_row(Text(f"  {flow.layer}"), Text(flow.type), Text(flow.text, overflow="fold"))
    console.print(Padding(table, (0, 0, 1, 0)))


def _todos(report: Report, console: Console) -> None:
    if not report.todos:
        return
    console.print(Text(f"{len(report.todos)} to do", style="bold yellow"))
    table = Table.grid(padding=(0, 2, 0, 0))
    for todo in report.todos[:TODOS]:
        place = ", ".join(part for part in (todo.layer, shown(todo.source)) if part)
        table.add_row(Text(f"  {todo.op}"), Text(f"{todo.reason} ({place})"))
    console.print(table)
    if len(report.todos) > TODOS:
        console.print(f"  and {len(report.todos) - TODOS} more, all of them in the JSON")
    console.print()


def _files(report: Report, console: Console, folder: Path | None) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    places = [(name, shown(place) or place) for name, place in report.files.items()]
    if report.report is not None:
        places.append(("report", shown(report.report) or report.report))
        folder = folder or Path(report.report).parent
    if seconds := phrases.seconds(report):
        places.append(("took", seconds))
    places += phrases.cost(report)
    if folder is not None:
        places += [("" if row else "next", command) for row, command in enumerate(_next(report, folder))]
    for name, place in places:
        # Paths are for copying, so they are folded rather than cut short.
        table.add_row(Text(name.capitalize(), style="bold"), Text(place, overflow="fold"))
    if places:
        console.print(table)


def _next(report: Report, folder: Path) -> list[str]:
    """The commands that show more of what went wrong."""
    if report.passed:
        return []
    place = shlex.quote(shown(str(folder)) or str(folder))
    commands = [f"torchport report {place} --format html", f"torchport tui {place}"]
    return [*commands, f"torchport minify {place}"] if report.first_divergence else commands
