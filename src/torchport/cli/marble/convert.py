"""`torchport marble convert`: a model as a graph of neurons, in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from torchport.cli import options
from torchport.cli.marble import shared
from torchport.cli.output import console, print_json
from torchport.cli.progress import Progress
from torchport.errors import UsageError
from torchport.files import write_atomically

if TYPE_CHECKING:
    from torchport.events import Steps
    from torchport.marble import Core
    from torchport.targets.marble.config import Config
    from torchport.targets.marble.conversion import Conversion
    from torchport.targets.marble.summary import Summary
    from torchport.targets.marble.validation import Validation


def convert(
    pytorch: Annotated[
        str, typer.Option(metavar="FILE|SPEC", help="The model as file.py:callable, or a file of weights.")
    ],
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the graph is written: .marble or .json.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="SPEC", help="The model that a file of weights is for.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Convert, and write nothing.")] = False,
    summary: Annotated[bool, typer.Option("--summary", help="Print what the graph consists of.")] = False,
    summary_output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the summary as JSON.")
    ] = None,
    summary_csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the summary as CSV.")
    ] = None,
    summary_plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the summary: .svg or .png.")
    ] = None,
    show_graph: Annotated[bool, typer.Option("--show-graph", help="Print the groups of neurons.")] = False,
    config: shared.ConfigFile = None,
    validate: Annotated[
        bool, typer.Option("--validate", help="Compare with PyTorch; what differs is not written.")
    ] = False,
    tolerance: shared.Tolerance = None,
    positional_encoding: shared.Encoding = None,
    journal: Annotated[bool, typer.Option("--journal", help=shared.JOURNAL)] = False,
    verbose: shared.Verbose = False,
    as_json: options.Json = False,
) -> int:
    """Convert a model to a graph of neurons.

    Exits with 1 if --validate finds a layer that differs; nothing is written then.
    """
    with shared.logged(verbose), Progress() as progress:
        from torchport.events import Steps
        from torchport.marble import summary as summarised
        from torchport.targets.marble.config import read_config, with_flags
        from torchport.targets.marble.conversion import converted

        shared.one_of(positional_encoding, ("sinusoidal", "learned"), "--positional-encoding")
        settings = with_flags(
            read_config(config),
            output=output,
            encoding=positional_encoding,  # type: ignore[arg-type]
            tolerance=tolerance,
            is_validated=validate or tolerance is not None,
            as_json=summary_output,
            as_csv=summary_csv,
            plot=summary_plot,
            journal=journal,
        )
        _must_be_possible(settings, dry_run)
        steps = Steps(progress)
        found = converted(pytorch, model, settings, steps)
        counted = summarised(found.core)
        is_wrong = found.validation is not None and not found.validation.passed
        written = [] if dry_run or is_wrong else _write(found.core, counted, settings, steps)
    if as_json:
        print_json(_facts(found, counted, written, steps, show_graph))
    else:
        _print(found, counted, written, summary=summary, show_graph=show_graph)
    return 1 if is_wrong else 0


def _must_be_possible(settings: "Config", dry_run: bool) -> None:
    """What cannot be written is reported before the work is done."""
    from torchport.porting.port import must_be_writable
    from torchport.targets.marble.summary_plot import must_be_drawable

    if settings.output is None and not dry_run:
        raise UsageError("TP0801", "convert needs --output FILE, or --dry-run to write nothing")
    if settings.output is not None and Path(settings.output).suffix not in (".marble", ".json"):
        raise UsageError(
            "TP0801",
            f"the format of {settings.output} is not known",
            fix="Give a file that ends in .marble or .json.",
        )
    if settings.summary.plot is not None:
        must_be_drawable(Path(settings.summary.plot))
    for path in (settings.output, *settings.summary.model_dump().values()):
        if path is not None and not dry_run:
            must_be_writable(Path(path).absolute().parent)


def _write(core: "Core", counted: "Summary", settings: "Config", steps: "Steps") -> list[str]:
    from torchport import marble
    from torchport.targets.marble.summary_plot import write_plot

    files = settings.summary
    assert settings.output is not None
    with steps.step("write", f"writing {settings.output}"):
        marble.save(core, settings.output, journal=settings.journal)
        if files.as_json is not None:
            write_atomically(files.as_json, counted.to_json() + "\n")
        if files.as_csv is not None:
            write_atomically(files.as_csv, counted.to_csv())
        if files.plot is not None:
            write_plot(counted, Path(files.plot))
    return [path for path in (settings.output, files.as_json, files.as_csv, files.plot) if path is not None]


def _facts(
    found: "Conversion", counted: "Summary", written: list[str], steps: "Steps", show_graph: bool
) -> dict[str, Any]:
    verdict = found.validation
    return {
        "status": _status(verdict),
        "summary": counted.model_dump(mode="json"),
        "validation": None if verdict is None else verdict.model_dump(mode="json"),
        "notes": found.core.notes,
        "files": written,
        "seconds": steps.seconds,
        **({"graph": _groups(found.core)} if show_graph else {}),
    }


def _status(verdict: "Validation | None") -> str:
    """A verdict only if the graph was compared with the model."""
    if verdict is None:
        return "converted"
    return "pass" if verdict.passed else "fail"


def _print(
    found: "Conversion", counted: "Summary", written: list[str], *, summary: bool, show_graph: bool
) -> None:
    from torchport.report import neurons

    stdout = console()
    if show_graph:
        neurons.render_graph(found.core.graph, stdout)
    if summary:
        neurons.render_summary(counted, stdout)
    else:
        typer.echo(neurons.headline(counted))
    if found.validation is not None:
        neurons.render_validation(found.validation, stdout)
    shared.print_notes(found.core.notes)
    for path in written:
        typer.echo(f"wrote {path}")
    if not written:
        typer.echo("nothing was written")


def _groups(core: "Core") -> list[dict[str, Any]]:
    return [
        {
            "name": group.name,
            "kind": group.kind.value,
            "work": group.work,
            "layer": group.layer,
            "first": group.first,
            "neurons": group.neurons,
            "shapes": [list(form.shape) for form in group.results],
        }
        for group in core.groups()
    ]
