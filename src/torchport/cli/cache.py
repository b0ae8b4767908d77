"""`torchport cache`: what is kept on this machine so that it need not be built again, and clearing it."""

from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import console, print_json
from torchport.cli.progress import Progress
from torchport.errors import UsageError

_DAYS = 30.0


def cache(
    clear: Annotated[
        str | None,
        typer.Option(metavar="stale|all", help="Remove what nothing will ask for again, or everything."),
    ] = None,
    days: Annotated[
        float, typer.Option(min=0.0, metavar="N", help="What was not used for N days is stale.")
    ] = _DAYS,
    as_json: options.Json = False,
) -> int:
    """Show what is kept on this machine, or clear it.

    Candle is built once and then kept; each output directory that was built adds a small crate.
    """
    if clear not in (None, "stale", "all"):
        raise UsageError("TP0801", f"--clear is {clear!r}", fix="it is stale or all")
    with Progress() as progress:
        from torchport.porting.cache import cache_contents, clear_cache

        freed = None if clear is None else clear_cache(everything=clear == "all", days=days, say=progress.say)
        found = cache_contents(days)
    if as_json:
        print_json({**found.as_json(), **({"freed": freed} if freed is not None else {})})
    else:
        console().print(found.as_text(freed), highlight=False, markup=False, soft_wrap=True)
    return 0
