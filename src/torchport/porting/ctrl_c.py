"""What Ctrl-C leaves behind, in one line: what is there, and how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchport.errors import Stopped
from torchport.runs.folder import RUN_FILE


@contextmanager
def during_a_port(folder: Path) -> Iterator[None]:
    earlier = _state(folder / RUN_FILE)
    try:
        yield
    except KeyboardInterrupt as stop:
        place, now = shlex.quote(str(folder)), _state(folder / RUN_FILE)
        if now is not None and now == earlier:
            raise _as_before(folder) from stop
        if now is not None:
            text = (
                f"stopped: the port is written to {folder} and not proven; `torchport check {place}` goes on"
            )
            raise Stopped(text) from stop
        raise Stopped("stopped: no port was written yet; the same command begins anew") from stop


@contextmanager
def during_a_check(folder: Path) -> Iterator[None]:
    """Also for whatever else is done with a run that is there."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise _as_before(folder) from stop


def _state(file: Path) -> tuple[int, int] | None:
    """What is another once the file is written anew; None if there is no such file."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _as_before(folder: Path) -> Stopped:
    return Stopped(f"stopped: {folder} is as it was before; the same command begins anew")
