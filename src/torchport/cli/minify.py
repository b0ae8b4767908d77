"""`torchport minify`: the least that still fails, of a port or of a debugging run; `debug minify` is the same."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_json
from torchport.cli.progress import Progress
from torchport.errors import ReportError

if TYPE_CHECKING:
    from torchport.debug.minifier.result import MinifiedGraph
    from torchport.explain.repro import Minified


def minify(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="The folder of a port or of a debugging run that fails, or a script."
        ),
    ],
    as_json: options.Json = False,
) -> int:
    """Reduce what fails to its smallest part, as a Python script and, for a port, a test in its own language.

    They are run in a process of their own before they are handed over.
    """
    with Progress() as progress:
        found = _minified(directory, progress)
    if as_json:
        print_json(found.model_dump())
    else:
        typer.echo(found.as_text())
    return 0


def _minified(directory: Path, progress: Progress) -> "Minified | MinifiedGraph":
    from torchport.debug.folders import run_around, runs_in

    if not directory.exists():
        raise ReportError(
            "TP0340",
            f"there is nothing at {directory}",
            where=str(directory),
            fix="Give the folder of a port or of a debugging run (`torchport debug list` shows them), or a script.",
        )
    debugged = directory if directory.is_file() or runs_in(directory) else run_around(directory)
    if debugged is not None:
        from torchport.debug.minifying import minify_debug_run

        return minify_debug_run(debugged, progress.say)
    from torchport.porting.commands import minify_run

    return minify_run(directory, watch=progress)
