"""Keeping Python's garbage collector away from objects that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEVER = 1_000_000
"""More collections of young objects than a comparison has, after which the collector would look at all objects."""


@contextmanager
def older_objects_left_alone() -> Iterator[None]:
    """Within, the collector looks only at young objects: torch and a model have hundreds of thousands of others.

    A comparison keeps nearly all that it makes until its end, so that to look at it again finds nothing to free. If
    somebody has frozen objects already, nothing is changed.
    """
    if gc.get_freeze_count():
        yield
        return
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*thresholds[:2], _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
