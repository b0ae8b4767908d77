"""The options that the commands of `torchport weights` share, and what they print."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

SHOWN = 10
Checkpoint = Annotated[
    list[Path],
    typer.Argument(
        metavar="CHECKPOINT…", help="safetensors, .bin, .pt, .pth or .gguf; an index, or a folder of shards."
    ),
]
Manifest = Annotated[
    Path, typer.Option("--manifest", metavar="FILE", help="The NAME_manifest.json of the port's recording.")
]
Prefix = Annotated[
    list[str] | None,
    typer.Option(
        "--prefix",
        metavar="NAME.",
        help="What the weights' names begin with in the checkpoint, such as ema.; the first that has a name counts.",
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="List all names.")]


def print_names(label: str, names: Iterable[str], *, everything: bool) -> None:
    """A heading with the number of names, and the names, or the first of them."""
    listed = list(names)
    if not listed:
        return
    typer.echo(f"{label}: {len(listed)}")
    shown = listed if everything else listed[:SHOWN]
    for name in shown:
        typer.echo(f"  {name}")
    if len(listed) > len(shown):
        typer.echo(f"  … {len(listed) - len(shown)} more (--all)")


def print_match(result: Mapping[str, Any], *, everything: bool) -> None:
    """What was found for a port in a checkpoint, and what not."""
    prefixes: Collection[str] = [prefix for prefix in result["prefix"] if prefix]
    if prefixes:
        typer.echo(f"under: {', '.join(prefixes)}")
    typer.echo(f"matched: {result['matched']}")
    cast = (f"{name} from {dtype}" for name, dtype in result["cast"].items())
    misfits = (f"{name} {why}" for name, why in result["misfits"].items())
    for label, names in (
        ("ambiguous, choose one with --prefix", map(repr, result["ambiguous"])),
        ("from the recording", result["recorded"]),
        ("cast", cast),
        ("missing", result["missing"]),
        ("misfit", misfits),
        ("left over", result["left_over"]),
        ("perhaps", result["suggestions"]),
    ):
        print_names(label, names, everything=everything)
