"""`torchport todos`: what is left to do in generated code."""

from pathlib import Path
from typing import Annotated, Any

import typer

from torchport.cli import options
from torchport.cli.output import print_json


def todos(
    file: Annotated[Path, typer.Option(metavar="FILE", help="A generated source file, as it is now.")],
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 while any marker remains.")] = False,
    as_json: options.Json = False,
) -> int:
    """List the TODO markers left in generated code, by type, with a suggestion for each."""
    from torchport.porting.listing import list_todos

    found = list_todos(file)
    if as_json:
        print_json(found)
    else:
        _print(found)
    return 1 if check and found["todos"] else 0


def _print(found: dict[str, Any]) -> None:
    if not found["todos"]:
        typer.echo(f"{found['file']}: nothing is left to do")
        return
    for kind, markers in found["by_type"].items():
        typer.echo(f"{kind}: {len(markers)}")
        for marker in markers:
            what = " in ".join(part for part in (marker["op"], marker["module"]) if part)
            typer.echo(f"  {found['file']}:{marker['line']}  {what or 'by hand'}")
            typer.echo(f"    {marker['reason']}" + (f" ({marker['source']})" if marker["source"] else ""))
            typer.echo(f"    {marker['suggestion']}")
