"""`torchport debug list`: the runs, and the backends that there are."""

import typer

from torchport.cli import options
from torchport.cli.debug import shared
from torchport.cli.output import console, print_json


def list_runs(root: shared.Root = shared.DEFAULT_ROOT, as_json: options.Json = False) -> int:
    """List the debugging runs in a folder, the newest last."""
    from torchport.debug.listing import Listed, listed
    from torchport.porting.cache import readable

    found = listed(root)
    if as_json:
        print_json({"status": "pass", "root": str(root), "runs": [one._asdict() for one in found]})
        return 0
    if not found:
        typer.echo(f"There is no debugging run in {root}; `torchport debug run SPEC` makes one.")
        return 0
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("Run", "Status", "Made", "Size"):
        table.add_column(column, no_wrap=True, overflow="fold")
    table.add_column("What came of it", overflow="fold")

    def row(one: Listed) -> list[Text]:
        return [Text(text) for text in (one.path, one.status, one.created, readable(one.bytes), one.headline)]

    for one in found:
        table.add_row(*row(one))
    console().print(table)
    return 0
