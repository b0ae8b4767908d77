"""`torchport bench`: measure models under the backends of torch.compile, beside eager PyTorch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from torchport.cli import options
from torchport.cli.output import console, print_json
from torchport.cli.progress import Progress
from torchport.errors import UsageError

if TYPE_CHECKING:
    from torchport.bench.results import Results


def bench(
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", metavar="NAME|SPEC", help="A model; may be repeated. A SPEC is file.py:callable."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every model that torchport brings.")] = False,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            "--backend",
            metavar="NAME",
            help="A backend; may be repeated (eager, mock and inductor, if not given).",
        ),
    ] = None,
    warmup: Annotated[int, typer.Option(min=0, metavar="N", help="Calls before any is measured.")] = 3,
    runs: Annotated[int, typer.Option(min=1, metavar="N", help="Calls that are measured.")] = 10,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="Such as cpu or cuda.")] = "cpu",
    small: Annotated[bool, typer.Option("--small", help="Small sizes of the models, to try it out.")] = False,
    compare: Annotated[
        bool, typer.Option("--compare/--no-compare", help="Also compare what backends compute with eager.")
    ] = True,
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="What one model on one backend may take.")
    ] = 600.0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the results to this file as JSON, row by row.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Only list models and backends.")] = False,
    as_json: options.Json = False,
) -> int:
    """Measure models under the backends of torch.compile, beside eager PyTorch.

    Each model runs on each backend in a process of its own. Exits with 1 when a row failed or ran out
    of time, or when a backend computes something else than eager PyTorch.
    """
    if listing:
        return _list(as_json)
    with Progress() as progress:
        from torchport.bench.backends import USUAL
        from torchport.bench.models import MODELS
        from torchport.bench.running import BenchStopped, must_be_installed, run_benchmarks

        if not model and not everything:
            raise UsageError(
                "TP0801", "bench needs --model NAME or --all", fix=f"models: {', '.join(MODELS)}"
            )
        must_be_installed(model or ())
        stopped: BenchStopped | None = None
        try:
            results = run_benchmarks(
                [*(MODELS if everything else ()), *(model or ())],
                backend or USUAL,
                warmup=warmup,
                runs=runs,
                device=device,
                small=small,
                compare=compare,
                time_limit=time_limit,
                out=out,
                progress=progress.say,
            )
        except BenchStopped as stop:
            results, stopped = stop.results, stop
    if results.rows or stopped is None:
        _show(results, as_json)
    if stopped is not None:
        raise stopped
    return 0 if results.passed else 1


def _show(results: "Results", as_json: bool) -> None:
    if as_json:
        typer.echo(results.to_json())
        return
    from torchport.bench.table import render

    render(results, console())


def _list(as_json: bool) -> int:
    from torchport.bench.listing import listed

    found = listed()
    if as_json:
        print_json(found)
        return 0
    for kind, entries in found.items():
        typer.echo(f"{kind}:")
        for entry in entries:
            problem = f"  ({entry['problem']})" if entry["problem"] else ""
            typer.echo(f"  {entry['name']:18} {entry['what']}{problem}")
    return 0
