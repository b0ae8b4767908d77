"""`torchport marble view`: a page to look at a graph in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.marble import shared
from torchport.cli.output import print_json
from torchport.cli.progress import Progress


def view(
    file: shared.File,
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the page is written, such as page.html.")
    ],
    verbose: shared.Verbose = False,
    as_json: options.Json = False,
) -> int:
    """Write a page that shows a graph: its layers, and the neurons of each on demand."""
    with shared.logged(verbose), Progress() as progress:
        from torchport import marble
        from torchport.targets.marble.view import write_view

        core = marble.load(file)
        progress.say(f"writing {output}")
        write_view(core, output)
    if as_json:
        print_json({"status": "pass", "file": str(output)})
    else:
        typer.echo(output)
    return 0
