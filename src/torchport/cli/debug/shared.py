"""What the commands on debugging runs share."""

from pathlib import Path
from typing import Annotated

import typer

Root = Annotated[
    Path, typer.Option(metavar="DIR", help="Where debugging runs are (torchport-debug, if not given).")
]
Run = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="The folder of a run, or of several: then the newest is taken."),
]
DEFAULT_ROOT = Path("torchport-debug")
