"""`torchport tui`: the dashboard of a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli.runs import of_port


def tui(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The directory that `torchport port` wrote, or its report.")
    ],
) -> int:
    """Look at a finished run on a dashboard.

    While a port is made: `torchport port SPEC --to TARGET --tui`.
    """
    from torchport.report.tui import require

    require()
    from torchport.report.tui.session import show
    from torchport.runs.run import Run

    show(of_port(run, Run.open))
    return 0
