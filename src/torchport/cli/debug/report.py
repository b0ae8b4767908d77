"""`torchport debug report`: a run as a page or as JSON."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    html = "html"
    json = "json"


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Folders of runs; for a folder of runs, the newest in it."),
    ],
    format: Annotated[
        Format, typer.Option("--format", help="html: one page. json: the facts.")
    ] = Format.html,
    benchmarks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Results of `torchport bench`, to be shown on the page."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where it is written; - is stdout.")
    ] = None,
) -> int:
    """Write what debugging runs found. Several runs come on one page, grouped by model."""
    from torchport.debug.generate import ReportGenerator

    generator = ReportGenerator(*runs, benchmarks=benchmarks)
    if out == Path("-"):
        typer.echo(generator.text(format.value))
    else:
        typer.echo(generator.write(format.value, out))
    return 0
