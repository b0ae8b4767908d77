"""`torchport explain`: what an error code means and what to do about it."""

from difflib import get_close_matches
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_json
from torchport.errors import CODES, UsageError


def explain(
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="Such as TP0203.")] = None,
    as_json: options.Json = False,
) -> int:
    """Say what an error code means, or list them all."""
    if code is None:
        return _list_all(as_json)
    wanted = code.upper()
    if wanted not in CODES:
        near = ", ".join(get_close_matches(wanted, CODES, n=4, cutoff=0.6))
        fix = f"Near it are {near}." if near else None
        raise UsageError("TP0802", f"there is no code {code}", fix=fix)
    title, meaning, fix = CODES[wanted].spelled()
    if as_json:
        print_json({"code": wanted, "title": title, "meaning": meaning, "fix": fix})
    else:
        typer.echo(f"{wanted}: {title}\n\n{meaning}\n\nNext: {fix}")
    return 0


def _list_all(as_json: bool) -> int:
    if as_json:
        print_json({"codes": {code: one.spelled()._asdict() for code, one in CODES.items()}})
    else:
        for code, one in CODES.items():
            typer.echo(f"{code}  {one.title}")
    return 0
