"""A report on the terminal: the verdict first, then the culprit, the worst layers and the files."""

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchport.report import phrases
from torchport.report.model import Report

WORST = 8
TODOS = 10
ROOM_FOR_TYPE = 96
_STYLES = {"pass": "bold green", "fail": "bold red"}


def render(report: Report, console: Console) -> None:
    """Print `report`. Colour is the console's business: none off a terminal or with NO_COLOR."""
    _verdict(report, console)
    _culprit(report, console)
    _worst_layers(report, console)
    _todos(report, console)
    _files(report, console)


def _verdict(report: Report, console: Console) -> None:
    style = _STYLES.get(report.status, "bold yellow")
    table = Table.grid(padding=(0, 2, 0, 0))
    word = Text(phrases.WORDS[report.status], style=style)
    table.add_row(word, Text(phrases.headline(report), style="bold"))
    if report.outputs is not None:
        table.add_row("", Text(f"Outputs: {phrases.outputs(report.outputs)}"))
    console.print(table)


def _culprit(report: Report, console: Console) -> None:
    divergence = report.first_divergence
    if divergence is None:
        return
    chained = next((one.chained for one in report.layers if one.name == divergence.layer), None)
    table = Table.grid(padding=(0, 2, 0, 0))
    name = Text.assemble((divergence.layer, "bold red"), f"  {divergence.type}")
    table.add_row(Text("Culprit", style="bold"), name)
    table.add_row("  what", Text(phrases.culprit(divergence)))
    if divergence.kind == "own":
        table.add_row("  own error", Text(phrases.error(divergence.metrics)))
    table.add_row("  chained", Text(phrases.error(chained)))
    table.add_row("  source", Text(divergence.source or "unknown"))
    console.print(Padding(table, (1, 0, 0, 0)))


def _worst_layers(report: Report, console: Console) -> None:
    worst = report.worst_layers(WORST)
    if not worst:
        return
    title = "Nearest to the limit" if worst[0].passed else "Worst layers"
    with_type = console.width >= ROOM_FOR_TYPE
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column(title, overflow="fold")
    for heading in ("Own error", "of limit", "Chained"):
        table.add_column(heading, justify="right", no_wrap=True)
    if with_type:
        table.add_column("Type", no_wrap=True, max_width=24)
    for layer in worst:
        cells = [
            Text(phrases.verdict(layer), style="green" if layer.passed else "bold red"),
            Text(layer.name),
            Text(phrases.largest(layer.own)),
            Text(phrases.share_of_limit(layer.own)),
            Text(phrases.largest(layer.chained)),
        ]
        table.add_row(*cells, *([Text(layer.type.rpartition(".")[2])] if with_type else []))
    console.print(Padding(table, (1, 0, 1, 0)))


def _todos(report: Report, console: Console) -> None:
    if not report.todos:
        return
    console.print(Text(f"{len(report.todos)} to do", style="bold yellow"))
    table = Table.grid(padding=(0, 2, 0, 0))
    for todo in report.todos[:TODOS]:
        place = ", ".join(part for part in (todo.layer, todo.source) if part)
        table.add_row(Text(f"  {todo.op}"), Text(f"{todo.reason} ({place})"))
    console.print(table)
    if len(report.todos) > TODOS:
        console.print(f"  and {len(report.todos) - TODOS} more, all of them in the JSON")
    console.print()


def _files(report: Report, console: Console) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    places = dict(report.files)
    if report.report is not None:
        places["report"] = report.report
    if seconds := phrases.seconds(report):
        places["took"] = seconds
    for name, place in places.items():
        # Paths are for copying: fold them rather than cut them short.
        table.add_row(Text(name.capitalize(), style="bold"), Text(place, overflow="fold"))
    if places:
        console.print(table)
