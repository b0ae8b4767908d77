"""The command line. A command holds no logic: it calls one function and prints what that gives.

Exit codes: 0 proven or done, 1 it ran and the answer is no, 2 it could not be done, 130 stopped by
Ctrl-C, 141 if nobody reads stdout any more. Data goes to stdout, progress and errors to stderr.

This module imports nothing that takes time: Ctrl-C has its answer, and a terminal its first word, while the rest loads.
"""

import os
import signal
import sys
from collections.abc import Sequence

STOPPED = 130
"""What shells give for a program that Ctrl-C ended."""
COMPLETE = "_TORCHPORT_COMPLETE"
"""What a shell sets that asks how a command line could go on."""
_NOTHING_BEGUN = "stopped: nothing was begun; the same command begins anew"
_LOADING = "torchport: starting"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; every error is turned into text."""
    loading = _Loading()
    try:
        loading.begin()
        from torchport.cli.command_line import run

        return run(arguments, loading.end)
    except KeyboardInterrupt:
        print(_NOTHING_BEGUN, file=sys.stderr)
        return STOPPED
    finally:
        loading.end()


class _Loading:
    """While a command line loads, Ctrl-C ends Python at once, and a terminal says what is waited for.

    As an exception it could come up in the middle of an import, where some packages make something else of it.
    """

    def __init__(self) -> None:
        self._handles = False
        self._says = False

    def begin(self) -> None:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            try:
                signal.signal(signal.SIGINT, _stop_at_once)
                self._handles = True
            except ValueError:  # Only the main thread has handlers.
                pass
        if COMPLETE not in os.environ and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            self._says = True
            sys.stderr.write(_LOADING)
            sys.stderr.flush()

    def end(self) -> None:
        if self._handles:
            self._handles = False
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._says:
            self._says = False
            sys.stderr.write("\r" + " " * len(_LOADING) + "\r")
            sys.stderr.flush()


def _stop_at_once(*_: object) -> None:
    start = "\r" if sys.stderr.isatty() else ""
    os.write(2, f"{start}{_NOTHING_BEGUN}\n".encode())
    os._exit(STOPPED)
