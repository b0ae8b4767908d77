"""The command line. A command holds no logic: it calls one function and prints what that gives.

Exit codes: 0 proven or done, 1 it ran and the answer is no, 2 it could not be done. Data goes to
stdout, progress and errors to stderr. Nothing heavy is imported before a command needs it.
"""

import sys
from collections.abc import Sequence

from torchport.cli import failure
from torchport.cli.app import app
from torchport.errors import TorchportError

__all__ = ["app", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; every error is turned into text here."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    as_json = "--json" in given
    try:
        code = app(given, prog_name="torchport", standalone_mode=False)
    except TorchportError as error:
        return failure.show(error, as_json=as_json, debug=debug)
    except Exception as error:  # noqa: BLE001 - the last place where an error can become text
        return failure.show(failure.coded(error), as_json=as_json, debug=debug)
    return code if isinstance(code, int) else 0
