"""`torchport record`: write down what a model is and what it computes."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_json, print_summary
from torchport.cli.progress import Progress
from torchport.errors import UsageError


def record(
    name: Annotated[str, typer.Option(help="What the recording is called.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the recording is written.")],
    spec: Annotated[str | None, typer.Argument(metavar="SPEC", help="The model: file.py:callable.")] = None,
    script: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A recording script, instead of a SPEC.")
    ] = None,
    dynamic: options.Dynamic = None,
    hints: options.Hints = None,
    ops: Annotated[bool, typer.Option("--ops", help="Record every operation's value.")] = False,
    allow_random: Annotated[
        bool, typer.Option("--allow-random", help="Record a model that draws random numbers, too.")
    ] = False,
    as_json: options.Json = False,
) -> int:
    """Record a model: its graph, its layers' values, its weights.

    Exits with 2 when torch.export cannot follow the model, so that only part of its graph is known.
    """
    if (spec is None) == (script is None):
        raise UsageError("TP0801", "give either a SPEC or --script, and not both")
    if script is not None and (dynamic or hints or ops or allow_random):
        raise UsageError("TP0801", "--dynamic, --hints, --ops and --allow-random are the script's own affair")
    with Progress() as progress:
        from torchport.porting.commands import record_script, record_spec

        if script is not None:
            summary = record_script(script, name=name, out=out, watch=progress)
        else:
            assert spec is not None
            summary = record_spec(
                spec,
                name=name,
                out=out,
                dynamic=dynamic,
                hints=hints,
                ops=ops,
                allow_random=allow_random,
                watch=progress,
            )
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)
    return 2 if summary.get("status") == "unsupported" else 0
