"""The options that several commands of `torchport marble` share, and the log of what they do."""

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from torchport.errors import UsageError

File = Annotated[Path, typer.Argument(metavar="FILE", help="A .marble file.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="YAML", help="Settings; flags count more than they do.")
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        metavar="T", help="Judge layers by this share of their largest magnitude, not by the noise floor."
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--positional-encoding",
        metavar="sinusoidal|learned",
        help="What the model's embedding adds, so that a token knows its place.",
    ),
]
By = Annotated[str, typer.Option("--by", metavar="groups|messages", help="How the graph is run; both agree.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Log every step on stderr.")]
Output = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where the graph is written; FILE itself, if not given.")
]
JOURNAL = "Keep the changes that are made later in a journal beside the file."


@contextmanager
def logged(verbose: bool) -> Iterator[None]:
    """Within, what is logged as `torchport.marble` goes to stderr if the user asked for it, and nowhere if not.

    The warnings in it are notes of a graph, which commands print with their answer.
    """
    log = logging.getLogger("torchport.marble")
    handler: logging.Handler = logging.StreamHandler(sys.stderr) if verbose else logging.NullHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s", "%H:%M:%S"))
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO if verbose else before)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def print_notes(notes: Sequence[str]) -> None:
    """What should be known of how a graph was made or loaded, a line for each."""
    for note in notes:
        typer.echo(f"note: {note}")


def one_of(given: str | None, choices: tuple[str, ...], label: str) -> None:
    """Raises if the user gave something else than one of the choices."""
    if given is not None and given not in choices:
        raise UsageError("TP0801", f"{label} is {given!r}", fix=f"It is {' or '.join(choices)}.")
