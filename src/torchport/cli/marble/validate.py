"""`torchport marble validate`: a graph from a file beside the model that it was made from."""

from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.marble import shared
from torchport.cli.output import console, print_json
from torchport.cli.progress import Progress


def validate(
    file: shared.File,
    model: Annotated[str, typer.Option(metavar="SPEC", help="The model: file.py:callable.")],
    pytorch: Annotated[
        str | None, typer.Option(metavar="FILE", help="A file of weights for the model.")
    ] = None,
    config: shared.ConfigFile = None,
    tolerance: shared.Tolerance = None,
    positional_encoding: shared.Encoding = None,
    by: shared.By = "groups",
    verbose: shared.Verbose = False,
    as_json: options.Json = False,
) -> int:
    """Compare a graph with its model, layer by layer.

    Exits with 1 if a layer differs.
    """
    with shared.logged(verbose), Progress() as progress:
        from torchport import marble
        from torchport.events import Steps
        from torchport.targets.marble.config import read_config, with_flags
        from torchport.targets.marble.conversion import prepared, validated
        from torchport.targets.marble.ways import WAYS

        shared.one_of(by, WAYS, "--by")
        shared.one_of(positional_encoding, ("sinusoidal", "learned"), "--positional-encoding")
        settings = with_flags(
            read_config(config),
            encoding=positional_encoding,  # type: ignore[arg-type]
            tolerance=tolerance,
        )
        core = marble.load(file)
        steps = Steps(progress)
        subject = prepared(
            pytorch or model, None if pytorch is None else model, settings.positional_encoding, steps
        )
        found = validated(core, subject, settings, steps, by)  # type: ignore[arg-type]
    if as_json:
        status = "pass" if found.passed else "fail"
        print_json({"status": status, **found.model_dump(mode="json"), "notes": core.notes})
    else:
        from torchport.report.neurons import render_validation

        render_validation(found, console())
        shared.print_notes(core.notes)
    return 0 if found.passed else 1
