"""`torchport debug run`: compile a model with everything watched, and compare its kernels."""

from typing import Annotated

import typer

from torchport.cli import options
from torchport.cli.debug import shared
from torchport.cli.output import EXIT_CODES, console
from torchport.cli.progress import Progress


def run(
    spec: options.Spec,
    backend: Annotated[
        str,
        typer.Option(metavar="NAME", help="A backend of torch.compile, mock, an adapter, or file.py:NAME."),
    ] = "inductor",
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
        bool, typer.Option("--gradients/--no-gradients", help="Whether the backward pass takes part.")
    ] = True,
    compare: Annotated[
        bool, typer.Option("--compare/--no-compare", help="Whether kernels are compared with eager PyTorch.")
    ] = True,
    dynamic: Annotated[
        bool | None, typer.Option("--dynamic/--static", help="Whether sizes are free, as in torch.compile.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="How often kernels are compared.")] = 1,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="How long the backend may take.")
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Compile a model with everything watched: graphs, breaks, guards, constraints, and every kernel's error.

    Exits with 1 if a constraint is violated, a kernel is wrong, or the backend fails.
    """
    with Progress() as progress:
        from torchport.debug.commands import debug_spec

        report = debug_spec(
            spec,
            backend=backend,
            root=root,
            name=name,
            constraints={
                "alignment": alignment,
                "dtypes": dtype,
                "max_memory": max_memory,
                "max_peak": max_peak,
                "contiguous": contiguous,
                "denied": deny,
                "own": constraint,
            },
            strict=strict,
            gradients=gradients,
            compare=compare,
            dynamic=dynamic,
            runs=runs,
            timeout_s=timeout,
            watch=progress,
        )
    if as_json:
        typer.echo(report.to_json())
    else:
        from torchport.debug import terminal

        terminal.summary(report, console())
    return EXIT_CODES[report.status]
