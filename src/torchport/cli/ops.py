"""`torchport ops`: what becomes of every operation of ATen."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from torchport.cli import options
from torchport.cli.output import console, print_json

if TYPE_CHECKING:
    from torchport.targets.coverage import Coverage, Covered


class State(StrEnum):
    mapped = "mapped"
    decomposed = "decomposed"
    refused = "refused"


def ops(
    target: Annotated[str | None, typer.Option(help="Where the models go.")] = None,
    state: Annotated[State | None, typer.Option(help="List the operations in this state.")] = None,
    core: Annotated[bool, typer.Option("--core", help="Core operations only.")] = False,
    as_json: options.Json = False,
) -> int:
    """Say what becomes of every operation of ATen: mapped, decomposed, or refused and why.

    Without --state, lists the core operations that are refused.
    """
    from torchport.porting.listing import list_operations

    found = list_operations(target)
    listed = [
        one for one in found.operations if (state is None or one.state == state) and (one.core or not core)
    ]
    if as_json:
        rows = [one.model_dump() for one in listed]
        print_json({**found.model_dump(exclude={"operations"}), "operations": rows})
    else:
        wanted = (
            listed if state is not None else [o for o in found.operations if o.core and o.state == "refused"]
        )
        _print(found, wanted)
    return 0


def _print(found: "Coverage", listed: "list[Covered]") -> None:
    from rich.table import Table
    from rich.text import Text

    counts = Table.grid(padding=(0, 2, 0, 0))
    counts.add_row(f"{found.target}, torch {found.torch}", *found.counts, "all")
    for label, numbers in (("all of ATen", found.counts), ("core", found.core)):
        counts.add_row(label, *map(str, numbers.values()), str(sum(numbers.values())))
    rows = Table.grid(padding=(0, 2, 0, 0))
    for one in listed:
        rows.add_row(Text(one.state), Text(one.op), Text("core" if one.core else ""), Text(one.why or ""))
    stdout = console()
    stdout.print(counts)
    stdout.print()
    stdout.print(rows)
