"""Keeping Python's garbage collector away from what was there before."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def older_objects_left_alone() -> Iterator[None]:
    """Within, the collector looks only at objects made within: torch and a model have hundreds of thousands.

    If somebody has frozen objects already, nothing is changed.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
