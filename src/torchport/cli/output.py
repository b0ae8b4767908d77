"""What a command prints on stdout, as text or as JSON, and the exit code that goes with it."""

import errno
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any, NoReturn, cast

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from torchport.runs.report import Report

PIPED_WIDTH = 110
EXIT_CODES = {"pass": 0, "fail": 1, "unsupported": 2, "error": 2}


def print_report(report: "Report", as_json: bool) -> int:
    if as_json:
        typer.echo(report.to_json())
    else:
        from torchport.report.terminal import render

        render(report, console())
    return EXIT_CODES[report.status]


def console() -> "Console":
    """Stdout; where it is not a terminal there is no width to keep to but a reader's comfort."""
    from rich.console import Console

    class Stdout(Console):
        def on_broken_pipe(self) -> NoReturn:
            """Where nobody reads any more, rich would end Python with 1, which says that the answer is no."""
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    if sys.stdout.isatty():
        return Stdout(highlight=False)
    wide = None if "COLUMNS" in os.environ else PIPED_WIDTH
    return Stdout(highlight=False, width=wide, file=cast(IO[str], _WithoutPadding(sys.stdout)))


class _WithoutPadding:
    """A stream whose lines do not end with the spaces that fill up a table on a terminal."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_json(data: Mapping[str, Any]) -> None:
    typer.echo(json.dumps({"schema": 1, **data}, indent=2, default=str))


def print_summary(summary: Mapping[str, Any], indent: str = "") -> None:
    """One line an entry; what is inside an entry is indented under it."""
    for name, value in summary.items():
        if isinstance(value, Mapping):
            typer.echo(f"{indent}{name}:")
            print_summary(value, indent + "  ")
        elif isinstance(value, list | tuple):
            typer.echo(f"{indent}{name}: {len(value)}")
            for one in value:
                typer.echo(f"{indent}  {_line(one)}")
        else:
            typer.echo(f"{indent}{name}: {value}")


def _line(one: object) -> str:
    if isinstance(one, Mapping):
        return "  ".join(str(value) for value in one.values() if value)
    return str(one)
