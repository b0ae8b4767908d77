"""Numbers as short text for the page: base64 of little-endian bytes, and ids of neurons as steps or runs.

The ids that arrive at an input mostly follow each other: then a few numbers say them all.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import torch
from torch import Tensor

MOST_IN_A_LIST = 500_000
"""Ids that are listed one by one or run by run for one input."""


def packed(values: np.ndarray, dtype: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()


def length(text_of: int) -> int:
    """The letters that some bytes take."""
    return (text_of + 2) // 3 * 4


def ids_of(ids: Tensor) -> dict[str, Any] | None:
    """The ids that arrive at an input, by their places; None if they would take too much room.

    `first` and `steps` are for ids that change by the same step along each axis; `runs` has for each run its first id,
    its step and its length; `list` has them all. -1 is nobody.
    """
    regular = _regular(ids)
    if regular is not None:
        return regular
    flat = ids.reshape(-1).numpy()
    if not _fits(flat):
        return None
    runs = _runs(flat)
    if runs.size < flat.size:
        return {"runs": packed(runs, "<i4")} if len(runs) <= MOST_IN_A_LIST else None
    return {"list": packed(flat, "<i4")} if flat.size <= MOST_IN_A_LIST else None


def _regular(ids: Tensor) -> dict[str, Any] | None:
    if not ids.numel():
        return {"first": 0, "steps": [0] * ids.ndim}
    origin = (0,) * ids.ndim
    first = int(ids[origin])
    steps, expected = [], torch.tensor(first)
    for axis, size in enumerate(ids.shape):
        beside = tuple(int(other == axis) for other in range(ids.ndim))
        step = int(ids[beside]) - first if size > 1 else 0
        steps.append(step)
        expected = expected[..., None] + torch.arange(size) * step
    return {"first": first, "steps": steps} if torch.equal(expected, ids) else None


def _fits(flat: np.ndarray) -> bool:
    return bool(flat.max(initial=0) < 2**31)


def _runs(flat: np.ndarray) -> np.ndarray:
    """`[runs, 3]`: first id, step, length. Runs are cut from the left, each as long as its step stays the same."""
    steps = np.diff(flat)
    turns = np.flatnonzero(np.diff(steps)) + 1
    starts = [0]
    for turn in turns.tolist():
        # The value at a turn ends its run; the next run begins after it, and has a step of its own from there on.
        if turn > starts[-1]:
            starts.append(turn + 1)
    begin = np.array(starts)
    end = np.append(begin[1:], flat.size)
    step = np.where(end - begin > 1, steps[np.minimum(begin, max(steps.size - 1, 0))] if steps.size else 0, 0)
    return np.stack([flat[begin], step, end - begin], 1)
