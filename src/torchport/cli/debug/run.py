"""`torchport debug run`: compile a model, or run a script, with everything watched."""

from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.debug import shared
from torchport.cli.output import EXIT_CODES, console
from torchport.cli.progress import Progress


def run(
    spec: Annotated[
        str, typer.Argument(metavar="SPEC|SCRIPT", help="The model, file.py:callable, or a script, file.py.")
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENT…]", help="What a script is given.")
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A backend of torch.compile, mock, an adapter, or file.py:NAME "
            "(inductor for a model, a script's own for a script, if not given).",
        ),
    ] = None,
    root: shared.Root = shared.DEFAULT_ROOT,
    name: Annotated[str | None, typer.Option(help="What the run is called.")] = None,
    alignment: Annotated[
        int | None, typer.Option(metavar="N", help="Constraint: last axes are multiples of N.")
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(metavar="DTYPE", help="Constraint: only these dtypes; may be repeated."),
    ] = None,
    max_memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Constraint: the most for one tensor, such as 512MB.")
    ] = None,
    max_peak: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Constraint: the most for all tensors at a time.")
    ] = None,
    contiguous: Annotated[
        bool, typer.Option("--contiguous", help="Constraint: tensors lie in memory in a row.")
    ] = False,
    deny: Annotated[
        list[str] | None,
        typer.Option(metavar="OP", help="Constraint: not this operation; with a * it is a pattern."),
    ] = None,
    constraint: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE:NAME", help="A constraint of your own: a class, or a function that makes one."
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first violated constraint.")] = False,
    gradients: Annotated[
        bool | None,
        typer.Option("--gradients/--no-gradients", help="Whether the backward pass takes part (it does)."),
    ] = None,
    compare: Annotated[
        bool | None,
        typer.Option(
            "--compare/--no-compare", help="Whether kernels are compared with eager PyTorch (they are)."
        ),
    ] = None,
    dynamic: Annotated[
        bool | None, typer.Option("--dynamic/--static", help="Whether sizes are free, as in torch.compile.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How often kernels are compared (once).")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="How long the backend may take.")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Compile a model with everything watched: graphs, breaks, guards, constraints, and every kernel's error.

    A script runs as `python SCRIPT` would, and every torch.compile in it is watched; kernels are not compared.

    Exits with 1 if a constraint is violated, a kernel is wrong, or the backend or the script fails.
    """
    constraints = {
        "alignment": alignment,
        "dtypes": dtype,
        "max_memory": max_memory,
        "max_peak": max_peak,
        "contiguous": contiguous,
        "denied": deny,
        "own": constraint,
    }
    of_model = {"gradients": gradients, "compare": compare, "dynamic": dynamic, "runs": runs}
    with Progress() as progress:
        from torchport.debug.commands import RunRequest, debug

        request = RunRequest(spec, arguments or (), backend, name, constraints, strict, timeout, {**of_model})
        report = debug(request, root=root, watch=progress)
    if as_json:
        typer.echo(report.to_json())
    else:
        from torchport.debug import terminal

        terminal.summary(report, console())
    return EXIT_CODES[report.status]
