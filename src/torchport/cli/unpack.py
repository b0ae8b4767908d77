"""`torchport unpack`: the floats that a checkpoint of few bits stands for."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_json, print_summary
from torchport.cli.progress import Progress


def unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A GGUF file, or safetensors of AWQ or GPTQ.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The safetensors file that is written.")],
    as_json: options.Json = False,
) -> int:
    """Write the floats that a checkpoint of few bits stands for to a safetensors file."""
    with Progress() as progress:
        from torchport.quant.unpacking import unpack_file

        progress.say(f"unpacking {file}")
        found = {"file": str(out), **unpack_file(file, out)}
    print_json(found) if as_json else print_summary(found)
    return 0
