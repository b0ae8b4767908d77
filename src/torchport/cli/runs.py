"""Opening the folder that a command is given: of which kind of run it is."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from torchport.errors import ReportError

Opened = TypeVar("Opened")


def of_port(path: Path, open_: Callable[[Path], Opened]) -> Opened:
    """The run at `path`; if it is one of debugging, the error says which command shows that."""
    try:
        return open_(path)
    except ReportError as error:
        from torchport.debug.folders import run_around

        found = run_around(path)
        if found is None:
            raise
        raise ReportError(
            error.code,
            f"{found} is a debugging run, which has a report of its own",
            where=str(found),
            fix=f"`torchport debug report {found}` makes its page, `torchport debug analyze {found}` prints it.",
        ) from error
