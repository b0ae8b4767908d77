"""`torchport debug clean`: deletes debugging runs, and nothing else."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.debug import shared
from torchport.cli.output import print_json
from torchport.errors import UsageError


def clean(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]…", help="Which runs; all of those in the root, if none is given."),
    ] = None,
    root: shared.Root = shared.DEFAULT_ROOT,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: options.Json = False,
) -> int:
    """Delete debugging runs after asking. Only folders that torchport made are ever deleted."""
    from torchport.debug.folders import delete, run_at, runs_in
    from torchport.porting.cache import readable

    found = [run_at(path) for path in runs] if runs else runs_in(root)
    size = readable(sum(one.bytes for one in found))
    if found and not yes:
        if as_json or not sys.stdin.isatty():
            raise UsageError(
                "TP0801", f"this would delete {len(found)} runs ({size})", fix="Give --yes to delete them."
            )
        for one in found:
            typer.echo(one.path, err=True)
        if not typer.confirm(f"Delete {len(found)} runs ({size})?", err=True):
            return 1
    for one in found:
        delete(one)
    if as_json:
        print_json({"status": "pass", "deleted": [str(one.path) for one in found]})
    else:
        typer.echo(
            f"Deleted {len(found)} runs ({size})." if found else f"There is no debugging run in {root}."
        )
    return 0
