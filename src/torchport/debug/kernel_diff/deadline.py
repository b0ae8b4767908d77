"""A time limit for code that is not ours: a backend that hangs must not take the comparison with it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

import torch

from torchport.errors import CompileError

Found = TypeVar("Found")


def within(seconds: float | None, what: str, work: Callable[[], Found]) -> Found:
    """What `work` gives; CompileError if it takes longer.

    It then goes on in a thread of its own, which cannot be ended. Without a limit it is done in this thread.
    Autocasting, which each thread has for itself, is there as it is here.
    """
    if seconds is None:
        return work()
    found: list[Found] = []
    raised: list[BaseException] = []

    settings = _autocast_settings()

    def run() -> None:
        try:
            with ExitStack() as stack:
                for device, dtype in settings:
                    stack.enter_context(torch.autocast(device, dtype))
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


def _autocast_settings() -> list[tuple[str, torch.dtype]]:
    """The types of devices for which operations are cast in this thread, and to what."""
    devices = {"cpu", *([one.type] if (one := torch.accelerator.current_accelerator()) else [])}
    return [
        (device, torch.get_autocast_dtype(device))
        for device in sorted(devices)
        if torch.is_autocast_enabled(device)
    ]
