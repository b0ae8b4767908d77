"""Whether a graph is being run, so that what runs outside of any graph can be told from it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_running = threading.local()


@contextmanager
def inside_graph() -> Iterator[None]:
    """Within, this thread runs a graph: `outside_watched` looks away. Backends put it around what they run."""
    depth: int = getattr(_running, "depth", 0)
    _running.depth = depth + 1
    try:
        yield
    finally:
        _running.depth = depth


def is_inside_graph() -> bool:
    return getattr(_running, "depth", 0) > 0
