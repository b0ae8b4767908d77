"""`torchport check`: compare a port that was made before, again or on other inputs."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_report
from torchport.cli.progress import Progress


def check(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory that `torchport port` wrote.")
    ],
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPEC]", help="A model with other inputs: file.py:callable.", show_default=False
        ),
    ] = None,
    rtol: options.Rtol = None,
    atol: options.Atol = None,
    explain: options.Explain = True,
    as_json: options.Json = False,
) -> int:
    """Prove an existing port again, on the recorded inputs or on those of a SPEC."""
    with Progress() as progress:
        from torchport.porting.commands import check_port

        report = check_port(directory, spec, rtol=rtol, atol=atol, explain=explain, watch=progress)
    return print_report(report, as_json)
