"""The processes that must end with this one: those that it has started, and those that they have."""

from collections.abc import Iterable
from contextlib import suppress

import psutil


def descendants() -> set[psutil.Process]:
    """The processes that this one has started, and those that they have started in turn."""
    return set(psutil.Process().children(recursive=True))


def end(processes: Iterable[psutil.Process]) -> None:
    """Asks each process to end."""
    for process in processes:
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.terminate()
