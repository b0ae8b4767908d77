"""`torchport minify`: the least that still fails, as a script and a test in the target's own language."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_json
from torchport.cli.progress import Progress


def minify(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a port that fails.")],
    as_json: options.Json = False,
) -> int:
    """Reduce a failing port to its smallest part, as one Python script and one Rust test.

    Both are run in a process of their own before they are handed over.
    """
    with Progress() as progress:
        from torchport.porting.commands import minify_run

        found = minify_run(directory, watch=progress)
    if as_json:
        print_json(found.model_dump())
    else:
        typer.echo(found.as_text())
    return 0
