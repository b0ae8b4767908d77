"""`torchport diff`: compare two sets of tensors, name by name."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import console
from torchport.cli.progress import Progress

_TOLERANCE = "tolerance, for every dtype; without one, those of torch.testing.assert_close for the dtype."


def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="The reference: a file, a directory or an index.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The candidate, of any of these kinds.")],
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="REGEX=REPLACEMENT",
            help="Rename B's names; all rules are applied, in order.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(metavar="REGEX", help="Leave out names in which this is found.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="REGEX", help="Leave out names in which this is not found.")
    ] = None,
    rtol: Annotated[
        float | None,
        typer.Option(
            min=0.0, metavar="X", callback=options.a_number, help=f"Judge by this relative {_TOLERANCE}"
        ),
    ] = None,
    atol: Annotated[
        float | None,
        typer.Option(
            min=0.0, metavar="X", callback=options.a_number, help=f"Judge by this absolute {_TOLERANCE}"
        ),
    ] = None,
    as_json: options.Json = False,
    everything: Annotated[bool, typer.Option("--all", help="Show every tensor, in order.")] = False,
) -> int:
    """Compare two sets of tensors by name: safetensors, checkpoints, captures, runs.

    Exits with 0 when they are the same within tolerance, and with 1 when they differ.
    """
    with Progress() as progress:
        from torchport.diff.difference import diff as compare

        difference = compare(
            a,
            b,
            rename=rename or (),
            ignore=ignore or (),
            only=only or (),
            rtol=rtol,
            atol=atol,
            progress=progress.say,
        )
    for warning in difference.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if as_json:
        typer.echo(difference.to_json())
    else:
        from torchport.report.difference import render

        render(difference, console(), everything=everything)
    return 0 if difference.passed else 1
