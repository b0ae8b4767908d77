"""`torchport weights inspect`: what is in a checkpoint."""

import typer

from torchport.cli import options
from torchport.cli.output import print_json
from torchport.cli.weights import shared


def inspect(
    checkpoint: shared.Checkpoint, everything: shared.Everything = False, as_json: options.Json = False
) -> int:
    """List the tensors of a checkpoint, without reading their values or running code that is in it."""
    from torchport.porting.extracting import inspect_checkpoint

    found = inspect_checkpoint(checkpoint)
    if as_json:
        print_json(found)
        return 0
    typer.echo(f"{found['count']} tensors, {found['bytes'] / 1e9:.3f} GB, in {len(found['files'])} file(s)")
    sections = (f"{name}.  {count}" for name, count in found["sections"].items())
    shared.print_names("sections", sections, everything=everything)
    tensors = (f"{name}  {one['dtype']} {one['shape']}" for name, one in found["tensors"].items())
    shared.print_names("tensors", tensors, everything=everything)
    shared.print_names("no tensors", found["skipped"], everything=everything)
    return 0
