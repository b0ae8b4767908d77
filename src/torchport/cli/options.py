"""The options that several commands share."""

import json
import math
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from torchport.errors import UsageError


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
ChecksOption = Annotated[
    Checks | None,
    typer.Option("--checks", help="What the generated code has watched (layers, if not given)."),
]
TargetOption = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=VALUE", help="An option of the target; may be repeated."),
]


def a_number(value: float | None) -> float | None:
    """Checks a tolerance, of which the parser only knows that it is a float."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a number that an error can be within")
    return value


Rtol = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="X",
        callback=a_number,
        help="Judge by this relative tolerance, not by the noise floor.",
    ),
]
Atol = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="X",
        callback=a_number,
        help="Judge by this absolute tolerance, not by the noise floor.",
    ),
]
AllowRandom = Annotated[
    bool,
    typer.Option(
        "--allow-random",
        help="Port operations that draw random numbers; what depends on them is left out of the verdict.",
    ),
]
Explain = Annotated[
    bool, typer.Option("--explain/--no-explain", help="Where a layer diverges, look for the cause.")
]


def of_target(
    given: list[str] | None, checks: Checks | None, *, allow_random: bool = False
) -> dict[str, Any]:
    """The options that go to the target: `--option NAME=VALUE`, and those that have a flag of their own."""
    found: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError("TP0801", f"--option {text!r} is not NAME=VALUE")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    flags = {"checks": checks.value} if checks is not None else {}
    return {**found, **flags, **({"allow_random": True} if allow_random else {})}
