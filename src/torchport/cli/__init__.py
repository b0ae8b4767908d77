"""The command line. A command holds no logic: it calls one function and prints what that gives.

Exit codes: 0 proven or done, 1 it ran and the answer is no, 2 it could not be done, 130 stopped by
Ctrl-C, 141 if nobody reads stdout any more. Data goes to stdout, progress and errors to stderr.
Nothing heavy is imported before a command needs it.
"""

import os
import sys
from collections.abc import Sequence

import typer

from torchport.cli import failure
from torchport.cli.app import app
from torchport.errors import TorchportError

__all__ = ["app", "main"]

STOPPED = 130
"""What shells give for a program that Ctrl-C ended."""
COMPLETE = "_TORCHPORT_COMPLETE"
"""What a shell sets that asks how a command line could go on."""
_STOPPED = "stopped: nothing is half-written; the same command begins anew"
REST = "--"
"""What comes after it on a command line is not torchport's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; every error is turned into text here."""
    if COMPLETE in os.environ:
        return _complete()
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
