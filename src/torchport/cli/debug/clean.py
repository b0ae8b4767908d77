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
    """Delete debugging runs after asking. Only what torchport made is ever deleted, and no run that is being made."""
    from torchport.debug.folders import delete, is_in_progress, run_at, runs_in
    from torchport.explain.repro import counted
    from torchport.porting.cache import readable

    known = [run_at(path) for path in runs] if runs else runs_in(root)
    busy = [one for one in known if not runs and is_in_progress(one.path)]
    found = [one for one in known if one not in busy]
    text = f"{counted(len(found), 'run')} ({readable(sum(one.bytes for one in found))})"
    if found and not yes:
        if as_json or not sys.stdin.isatty():
            raise UsageError("TP0801", f"this would delete {text}", fix="Give --yes to delete them.")
        for one in found:
            typer.echo(one.path, err=True)
        if not typer.confirm(f"Delete {text}?", err=True):
            return 1
    left = [path for one in found for path in delete(one)]
    if as_json:
        facts = {"deleted": [one.path for one in found], "busy": [one.path for one in busy], "left": left}
        print_json({"status": "pass", **{name: list(map(str, paths)) for name, paths in facts.items()}})
        return 0
    typer.echo(f"Deleted {text}." if found else f"There is no debugging run to delete in {root}.")
    for one in busy:
        typer.echo(f"Left {one.path}, which is being made right now.")
    for path in left:
        typer.echo(f"Left {path}, which torchport did not make.")
    return 0
