"""`torchport marble prune` and `torchport marble grow`: a graph with fewer synapses, or with more neurons."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torchport.cli import options
from torchport.cli.marble import shared
from torchport.cli.output import print_json
from torchport.cli.progress import Progress
from torchport.errors import UsageError

if TYPE_CHECKING:
    from torchport.marble import Core


def prune(
    file: shared.File,
    fraction: Annotated[
        float | None, typer.Option(metavar="F", help="The share of the weights that go, the smallest ones.")
    ] = None,
    below: Annotated[
        float | None, typer.Option(metavar="M", help="Weights of a smaller magnitude than this go.")
    ] = None,
    layer: Annotated[str | None, typer.Option(metavar="PATH", help="Only in this layer.")] = None,
    output: shared.Output = None,
    verbose: shared.Verbose = False,
    as_json: options.Json = False,
) -> int:
    """Remove the synapses of the smallest weights."""
    if (fraction is None) == (below is None):
        raise UsageError("TP0801", "give either --fraction or --below")
    with shared.logged(verbose), Progress() as progress:
        from torchport import marble

        core = marble.load(file)
        before = len(core.synapses)
        progress.say(f"pruning {file}")
        removed = core.prune(fraction=fraction, below=below, layer=layer)
        marble.save(core, output or file)
    return _answer(core, output or file, as_json, weights_removed=removed, synapses_before=before)


def grow(
    file: shared.File,
    group: Annotated[str, typer.Option(metavar="NAME", help="The group, such as one of --show-graph.")],
    neurons: Annotated[int, typer.Option(min=1, metavar="N", help="How many more neurons it gets a row.")],
    seed: Annotated[int, typer.Option(metavar="N", help="Of the weights of the new synapses.")] = 0,
    output: shared.Output = None,
    verbose: shared.Verbose = False,
    as_json: options.Json = False,
) -> int:
    """Add neurons beside those of a group. No output changes, as their synapses out have the weight 0."""
    with shared.logged(verbose), Progress() as progress:
        from torchport import marble

        core = marble.load(file)
        before = len(core.neurons)
        progress.say(f"growing {group}")
        made = core.grow(group, neurons, seed=seed)
        marble.save(core, output or file)
    return _answer(core, output or file, as_json, grown=made.name, neurons_before=before)


def _answer(core: "Core", path: Path, as_json: bool, **facts: int | str) -> int:
    found = {"file": str(path), "neurons": len(core.neurons), "synapses": len(core.synapses), **facts}
    if as_json:
        print_json({"status": "pass", **found})
        return 0
    for name, value in found.items():
        typer.echo(f"{name.replace('_', ' ')}: {value:,}" if isinstance(value, int) else f"{name}: {value}")
    return 0
