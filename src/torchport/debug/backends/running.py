"""Whether this thread runs a graph, and whether what it runs outside of any graph is watched."""

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


@contextmanager
def outside_seen() -> Iterator[None]:
    """Within, somebody watches what this thread runs outside of graphs."""
    watchers: int = getattr(_running, "watchers", 0)
    _running.watchers = watchers + 1
    try:
        yield
    finally:
        _running.watchers = watchers


def is_outside_seen() -> bool:
    return getattr(_running, "watchers", 0) > 0


def is_inside_graph() -> bool:
    return getattr(_running, "depth", 0) > 0
