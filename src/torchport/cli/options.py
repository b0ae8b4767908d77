"""The options that several commands share."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Checks(StrEnum):
    """How much of the generated code is watched."""

    none = "none"
    layers = "layers"
    ops = "ops"


Spec = Annotated[str, typer.Argument(metavar="SPEC", help="The model: file.py:callable.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Dynamic = Annotated[
    str | None,
    typer.Option(metavar="NAME:AXIS,…", help="Axes of inputs whose length may change."),
]
Hints = Annotated[Path | None, typer.Option(metavar="FILE", help="A hints.json that names dimensions.")]
ChecksOption = Annotated[Checks, typer.Option("--checks", help="What the generated code has watched.")]
Rtol = Annotated[
    float | None,
    typer.Option(min=0.0, metavar="X", help="Judge by this relative tolerance, not by the noise floor."),
]
Atol = Annotated[
    float | None,
    typer.Option(min=0.0, metavar="X", help="Judge by this absolute tolerance, not by the noise floor."),
]
Explain = Annotated[
    bool, typer.Option("--explain/--no-explain", help="Where a layer diverges, look for the cause.")
]
