"""`torchport debug analyze`: what a run knows about guards, about constraints, or in short."""

from enum import StrEnum
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.debug import shared
from torchport.cli.output import console, print_json


class Type(StrEnum):
    guards = "guards"
    constraints = "constraints"
    summary = "summary"


def analyze(
    run: shared.Run = shared.DEFAULT_ROOT,
    type: Annotated[Type, typer.Option("--type", help="What to look into.")] = Type.summary,
    as_json: options.Json = False,
) -> int:
    """Say what a run found: its guards and breaks, its violated constraints, or all in short."""
    from torchport.debug.folders import newest_run
    from torchport.debug.report import DebugReport

    report = DebugReport.read(newest_run(run).report)
    if as_json:
        facts = report.model_dump(mode="json")
        print_json({"status": report.status, "model": report.model, type.value: facts[type.value]})
        return 0
    from torchport.debug import terminal

    {
        Type.guards: terminal.guards,
        Type.constraints: terminal.constraints,
        Type.summary: terminal.summary,
    }[type](report, console())
    return 0
