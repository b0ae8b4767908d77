"""`torchport quantize`: run a port on its weights in blocks of few bits, and say what that costs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import console
from torchport.cli.progress import Progress

EXIT_CODES = {"done": 0, "unproven": 1, "missed": 1}


class Engine(StrEnum):
    """Where measurements are made."""

    local = "local"
    ray = "ray"


def quantize(
    spec: options.Spec,
    schemes: Annotated[
        str,
        typer.Option(
            metavar="NAME,…",
            help="Formats, such as q8_0,q4_0. A+B is B for the weights whose rows do not fit A.",
        ),
    ] = "q8_0,q5_0,q4_0",
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Put each weight in blocks alone, and rank them.")
    ] = False,
    budget_mb: Annotated[
        float | None,
        typer.Option("--budget-mb", min=0.0, metavar="X", help="Find the best mix of formats of X MB."),
    ] = None,
    max_drift: Annotated[
        float | None,
        typer.Option(
            "--max-drift",
            min=0.0,
            metavar="X",
            help="Find the smallest mix whose output is off by no more, as a share of its RMS.",
        ),
    ] = None,
    importance: Annotated[
        bool,
        typer.Option("--importance", help="Weigh columns by what the example inputs multiply them with."),
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw size against drift: .html, .svg or .png.")
    ] = None,
    engine: Annotated[Engine, typer.Option(help="Where measurements are made.")] = Engine.local,
    jobs: Annotated[int | None, typer.Option(min=1, metavar="N", help="How many are made at a time.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the port is written.")] = None,
    name: Annotated[str | None, typer.Option(help="What the port is called.")] = None,
    dynamic: options.Dynamic = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a port that was edited by hand; the edits are lost.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show every layer, in order.")] = False,
    as_json: options.Json = False,
) -> int:
    """Put the weights of a model in blocks of few bits, run the port on them, and measure the drift.

    Exits with 1 if the port itself diverges, or no mix keeps to what is asked for.
    """
    with Progress() as progress:
        from torchport.quant.running import Asked, quantize_spec
        from torchport.report.pareto import draw, must_be_drawable

        if plot is not None:
            must_be_drawable(plot)
        asked = Asked(
            schemes=tuple(scheme.strip() for scheme in schemes.split(",") if scheme.strip()),
            sensitivity=sensitivity,
            budget=None if budget_mb is None else budget_mb * 1e6,
            max_drift=max_drift,
            by_importance=importance,
            engine=engine.value,
            jobs=jobs,
        )
        report = quantize_spec(spec, asked, out=out, name=name, dynamic=dynamic, force=force, watch=progress)
        if plot is not None:
            draw(report, plot)
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        from torchport.report.quantisation import render

        render(report, console(), everything=everything)
    return EXIT_CODES[report.status]
