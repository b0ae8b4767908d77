"""One command line: which command it is, and errors as text. Nothing heavy is imported before a command needs it."""

import os
import sys
from collections.abc import Callable, Sequence

import typer

from torchport.cli import COMPLETE, STOPPED, failure
from torchport.cli.app import app
from torchport.errors import TorchportError
from torchport.spelling import as_flags

_STOPPED = "stopped: nothing is half-written; the same command begins anew"
REST = "--"
"""What comes after it on a command line is not torchport's."""


def run(arguments: Sequence[str] | None, begin: Callable[[], None]) -> int:
    """Runs one command and gives its exit code; `begin` is called when all is loaded that every command needs."""
    if COMPLETE in os.environ:
        return _complete()
    begin()
    with as_flags():
        return _run_one(arguments)


def _run_one(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index(REST) if REST in given else len(given)
    own, rest = given[:end], given[end:]
    command = [argument for argument in own if argument != "--debug"]
    try:
        code = _run([*command, *rest], as_json="--json" in own, debug="--debug" in own)
        sys.stdout.flush()
        return code
    except OSError as refusal:
        return failure.not_delivered(refusal)


def _complete() -> int:
    """What can follow on the command line that the shell has put into the environment."""
    try:
        typer.main.get_command(app)(prog_name="torchport", complete_var=COMPLETE)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def _run(command: list[str], *, as_json: bool, debug: bool) -> int:
    try:
        return _invoke(command)
    except (KeyboardInterrupt, typer.Abort) as stop:
        print(str(stop) or _STOPPED, file=sys.stderr)
        return STOPPED
    except TorchportError as error:
        return failure.show(error, as_json=as_json, debug=debug)
    except Exception as error:
        if failure.is_of_stdout(error):
            raise
        return failure.show(failure.coded(error), as_json=as_json, debug=debug)


def _invoke(command: list[str]) -> int:
    """Without typer's own `main`, which turns Ctrl-C and a closed pipe into exit codes before they can be shown."""
    try:
        parser = typer.main.get_command(app)
        with parser.make_context("torchport", command) as context:
            code = parser.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return code if isinstance(code, int) else 0
