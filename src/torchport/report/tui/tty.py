"""The terminal for the dashboard alone: all else that is written to stdout and stderr goes elsewhere meanwhile."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from torchport.errors import UsageError


def check() -> None:
    """Raises an error if there is no terminal to draw on or to read keys from."""
    lacking = [name for name, file in (("stdin", sys.stdin), ("stdout", sys.stdout)) if not file.isatty()]
    if lacking or os.environ.get("TERM") == "dumb":
        reason = f"not one: {', '.join(lacking)}" if lacking else "TERM says that this one cannot draw"
        fix = "Run it in a terminal, without pipes; without --tui, `torchport port` prints its report."
        raise UsageError("TP0801", f"the dashboard needs a terminal: {reason}", fix=fix)


@contextmanager
def taken(sink: int | None = None) -> Iterator[None]:
    """Gives the dashboard what was stdout; everyone else writes to `sink` and reads nothing.

    File descriptors are exchanged, not only `sys.stdout`: native code and child processes print, too.
    """
    streams = sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__
    no_color = os.environ.get("NO_COLOR")
    for stream in streams[:2]:
        stream.flush()
    with ExitStack() as stack:
        nowhere = os.open(os.devnull, os.O_RDWR)
        stack.callback(os.close, nowhere)
        kept = [os.dup(number) for number in range(3)]
        for number, copy in enumerate(kept):
            stack.callback(os.close, copy)
            stack.callback(os.dup2, copy, number)
        keys = stack.enter_context(open(kept[0], encoding="utf-8", closefd=False))
        screen = stack.enter_context(open(kept[1], "w", encoding="utf-8", closefd=False))
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = keys, screen, screen  # type: ignore[misc]
        os.dup2(nowhere, 0)
        for number in (1, 2):
            os.dup2(nowhere if sink is None else sink, number)
        try:
            yield
        finally:
            sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__ = streams  # type: ignore[misc]
            if no_color is not None:  # The library takes it out of the environment.
                os.environ["NO_COLOR"] = no_color
