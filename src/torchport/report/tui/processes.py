"""The processes that this one has started, and those that they have: what must end with it."""

import os
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> set[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for child, parent in _processes():
        children[parent].append(child)
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = [child for child in children[waiting.pop()] if child not in found]
        found.update(new)
        waiting += new
    return found


def end(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)


def _processes() -> Iterator[tuple[int, int]]:
    """Every process and its parent."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            pid, parent = line.split()
            yield int(pid), int(parent)
        return
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It may end while it is looked at.
            # A program's name stands in brackets and may hold anything, brackets too.
            yield int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])
