"""A time limit for code that is not ours: a backend that hangs must not take the comparison with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from torchport.errors import CompileError

Found = TypeVar("Found")


def within(seconds: float | None, what: str, work: Callable[[], Found]) -> Found:
    """What `work` gives; CompileError if it takes longer.

    It then goes on in a thread of its own, which cannot be ended. Without a limit it is done in this thread.
    """
    if seconds is None:
        return work()
    found: list[Found] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise CompileError("TP1022", f"{what} took more than {seconds:g} s")
    if raised:
        raise raised[0]
    return found[0]
