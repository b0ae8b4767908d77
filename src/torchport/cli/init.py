"""`torchport init`: a folder that records a model and fills its port."""

from pathlib import Path
from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.output import print_json, print_summary


def init(
    spec: options.Spec,
    name: Annotated[
        str | None, typer.Option(help="What the recording is called; the SPEC's callable, if not given.")
    ] = None,
    environment: Annotated[
        bool,
        typer.Option(
            "--environment/--no-environment", help="Make a Python environment for the recorder to run in."
        ),
    ] = True,
    as_json: options.Json = False,
) -> int:
    """Make .torchport here: a recorder, a script for weights, a folder for traces, and an environment.

    `torchport record` without arguments then runs the recorder.
    """
    from torchport.capture.spec import load_callable
    from torchport.porting.port import safe_name
    from torchport.porting.project import init as make

    load_callable(spec)
    label = safe_name(name or spec.rpartition(":")[2])
    result = make(spec, Path(), name=label, environment=environment)
    if as_json:
        print_json(result)
    else:
        print_summary(result)
    return 0
