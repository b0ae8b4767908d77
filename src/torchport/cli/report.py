"""`torchport report`: show a run again, in any format, or set it against an earlier one."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import EXIT_CODES, console
from torchport.cli.progress import Progress
from torchport.cli.runs import of_port
from torchport.errors import UsageError
from torchport.files import write_atomically
from torchport.report.formats import FORMATS, open_run, renderer


def report(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="The directory that `torchport port` wrote, or a report.json."),
    ],
    chosen: Annotated[
        str, typer.Option("--format", metavar="|".join(FORMATS), help="How to show it.")
    ] = "text",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write it.")] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="OLD", help="Show what changed since this earlier run.")
    ] = None,
    show: Annotated[
        bool, typer.Option("--open", help="Write the page of the run and open it in a browser.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Show the report of a run, as text, as a page, or for a CI system.

    Exits like `port`: 0 for a pass, 1 for a fail, 2 for what could not be done. With --against, exits
    with 1 when something got worse, and with 0 when nothing did.
    """
    if as_json and chosen not in ("text", "json"):
        raise UsageError("TP0801", f"--json and --format {chosen} exclude each other")
    if show and (as_json or against is not None or chosen not in ("text", "html")):
        message = "--open opens the page, and goes with no other format and with no --against"
        raise UsageError("TP0801", message, fix="Leave the other option out.")
    name = "json" if as_json else "html" if show else chosen
    if against is not None:
        return _show_change(run, against, name, out)
    code = _show(run, name, out)
    if show:
        _open(out or of_port(run, open_run).files.page)
    return code


def _open(page: Path) -> None:
    """A browser may be missing, as on a server: the page is there all the same."""
    if not webbrowser.open(page.resolve().as_uri()):
        typer.echo("no browser could be opened: open the page above in one", err=True)


def _show(path: Path, name: str, out: Path | None) -> int:
    is_text = name == "text" and out is None
    with Progress():
        write = renderer(name)
        run = of_port(path, open_run)
        text = "" if is_text else write(run)
    if is_text:
        from torchport.report.terminal import render

        render(run.report, console(), run.folder)
    else:
        _hand_out(text, run.files.page if name == "html" and out is None else out)
    if name == "github":
        from torchport.report.github import append_summary

        append_summary(run)
    return EXIT_CODES[run.report.status]


def _show_change(path: Path, old: Path, name: str, out: Path | None) -> int:
    with Progress():
        from torchport.report import changes
        from torchport.report.against import compare_runs

        write = changes.renderer(name)
        change = compare_runs(of_port(old, open_run).report, of_port(path, open_run).report)
    if name == "text" and out is None:
        changes.render(change, console())
    else:
        _hand_out(write(change), out)
    return 1 if change.worse else 0


def _hand_out(text: str, file: Path | None) -> None:
    """To stdout, or to a file whose path then goes to stdout."""
    if file is None:
        typer.echo(text.encode(), nl=False)  # UTF-8, as a file would be, whatever the terminal's encoding.
        return
    write_atomically(file, text)
    typer.echo(file)
