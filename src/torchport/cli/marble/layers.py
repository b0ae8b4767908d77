"""`torchport marble layers`: which layers of torch.nn become neurons."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.marble import shared
from torchport.cli.output import console, print_json
from torchport.cli.progress import Progress


def layers(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]…", help="Layers such as Conv2d; all, if none.")
    ] = None,
    load: Annotated[
        Path | None, typer.Option(metavar="FILE.py", help="A file that registers layers of its own.")
    ] = None,
    verbose: shared.Verbose = False,
    as_json: options.Json = False,
) -> int:
    """List the layers of torch.nn, and whether each becomes neurons.

    A small example of each layer is converted and compared with PyTorch, which takes a minute for all of them.
    """
    with shared.logged(verbose), Progress() as progress:
        from torchport.capture.spec import load_file
        from torchport.targets.marble.layer_states import layer_states

        if load is not None:
            load_file(load)
        progress.say("converting an example of each layer")
        found = list(layer_states(names or ()))
    counts = Counter(one.state for one in found)
    if as_json:
        print_json({"status": "pass", "counts": counts, "layers": [one.model_dump() for one in found]})
        return 0
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for one in found:
        table.add_row(
            Text(one.name), Text(one.state), Text(one.reason or "", overflow="ellipsis", no_wrap=True)
        )
    console().print(table)
    typer.echo(", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    return 0
