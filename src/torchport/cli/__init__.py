"""The command line. A command holds no logic: it calls one function and prints what that gives.

Exit codes: 0 proven or done, 1 it ran and the answer is no, 2 it could not be done, 130 stopped by
Ctrl-C. Data goes to stdout, progress and errors to stderr. Nothing heavy is imported before a
command needs it.
"""

import sys
from collections.abc import Sequence

import typer

from torchport.cli import failure
from torchport.cli.app import app
from torchport.errors import TorchportError

__all__ = ["app", "main"]

STOPPED = 130
"""What shells give for a program that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; every error is turned into text here."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    as_json = "--json" in given
    try:
        code = app(given, prog_name="torchport", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        print("stopped", file=sys.stderr)
        return STOPPED
    except TorchportError as error:
        return failure.show(error, as_json=as_json, debug=debug)
    except Exception as error:
        return failure.show(failure.coded(error), as_json=as_json, debug=debug)
    return code if isinstance(code, int) else 0
