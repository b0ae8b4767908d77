"""`torchport record`: write down what a model is and what it computes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from torchport.cli import options
from torchport.cli.output import print_json, print_summary
from torchport.cli.progress import Progress
from torchport.errors import UsageError


def record(
    spec: Annotated[str | None, typer.Argument(metavar="SPEC", help="The model: file.py:callable.")] = None,
    name: Annotated[str | None, typer.Option(help="What the recording is called.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the recording is written.")] = None,
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

    Without arguments, runs the recorder that `torchport init` made here.
    Exits with 2 when torch.export cannot follow the model, so that only part of its graph is known.
    """
    if (spec, script, name, out, dynamic, hints) == (None,) * 6 and not (ops or allow_random):
        return _shown(_of_the_project(), as_json)
    if (spec is None) == (script is None):
        raise UsageError("TP0801", "give either a SPEC or --script, and not both")
    if name is None or out is None:
        raise UsageError("TP0801", f"Missing option '{'--name' if name is None else '--out'}'.")
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
    return _shown(summary, as_json)


def _of_the_project() -> dict[str, Any]:
    with Progress():
        from torchport.porting.project import record_project

        return record_project(Path())


def _shown(summary: Mapping[str, Any], as_json: bool) -> int:
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)
    return 2 if summary.get("status") == "unsupported" else 0
