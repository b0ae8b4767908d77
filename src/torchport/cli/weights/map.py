"""`torchport weights map`: rules to begin with."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_json
from torchport.cli.progress import Progress
from torchport.cli.weights import shared


def map_names(
    checkpoint: shared.Checkpoint,
    manifest: shared.Manifest,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The rules file to write; stdout, if not given.")
    ] = None,
    prefix: shared.Prefix = None,
    as_json: options.Json = False,
) -> int:
    """Write rules for what a port does not find in a checkpoint by name: suggestions by shape and name.

    Exits with 1 while something is missing for which there is no suggestion.
    """
    with Progress():
        from torchport.porting.extracting import map_checkpoint

        result = map_checkpoint(checkpoint, manifest, out=out, prefixes=prefix or ())
    if as_json:
        print_json(result)
    elif out is None:
        typer.echo(result["rules"], nl=False)
    else:
        typer.echo(f"wrote {out}: {len(result['suggestions'])} suggestions, which are for you to check")
    lacking = len(result["missing"]) + len(result["misfits"]) - len(result["suggestions"])
    return 1 if lacking or result["ambiguous"] else 0
