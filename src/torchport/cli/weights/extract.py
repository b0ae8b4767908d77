"""`torchport weights extract`: the weights that a port loads, out of a checkpoint."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_json
from torchport.cli.progress import Progress
from torchport.cli.weights import shared
from torchport.errors import UsageError


def extract(
    checkpoint: shared.Checkpoint,
    manifest: shared.Manifest,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write, such as model.safetensors.")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A YAML file that says what is called otherwise.")
    ] = None,
    prefix: shared.Prefix = None,
    recorded_buffers: Annotated[
        bool,
        typer.Option(
            "--recorded-buffers",
            help="Buffers that the checkpoint lacks, as no state dict has them, are those of the recording.",
        ),
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The target that loads the weights, if not the usual one."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what is matched, missing, left over and ambiguous.")
    ] = False,
    everything: shared.Everything = False,
    as_json: options.Json = False,
) -> int:
    """Write the weights that a port loads, and nothing else, from file to file in a stream.

    With --dry-run, exits with 1 if something is missing. A run that was stopped goes on where it was.
    """
    if (out is None) != dry_run:
        raise UsageError("TP0801", "extract needs --out FILE, or --dry-run to write nothing, and not both")
    with Progress() as progress:
        from torchport.porting.extracting import extract_weights

        result = extract_weights(
            checkpoint,
            manifest,
            out=out,
            rules=rules,
            prefixes=prefix or (),
            recorded_buffers=recorded_buffers,
            target=target,
            watch=progress,
        )
    if as_json:
        print_json(result)
    else:
        shared.print_match(result, everything=everything)
        if out is not None:
            speed = (result["bytes"] - result["resumed_bytes"]) / max(result["seconds"], 1e-9) / 1e6
            resumed = result["resumed_bytes"]
            typer.echo(
                f"wrote {out}: {result['bytes'] / 1e9:.3f} GB in {result['seconds']:.1f} s ({speed:.0f} MB/s)"
                + (f", of which {resumed / 1e9:.3f} GB were there" if resumed else "")
            )
    return 1 if result["status"] == "incomplete" else 0
