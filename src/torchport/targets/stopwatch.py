"""What a run takes that is made in this process."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from torchport.targets.base import Timing

LEAST_RUNS, PATIENCE = 3, 1.0
"""A busy machine may need longer for a few runs; a model that takes seconds is run twice."""


def run_seconds(run: Callable[[], object], budget: float) -> list[float]:
    """The seconds of each run, without the first, for about as long as the budget says."""
    run()
    found: list[float] = []
    while not found or (sum(found) < PATIENCE and (len(found) < LEAST_RUNS or sum(found) < budget)):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return found


def timed_here(run: Callable[[], object], budget: float) -> Timing | None:
    """A typical run; None if it fails. It has no memory of its own, since the process is that of PyTorch."""
    try:
        with torch.no_grad():
            seconds = sorted(run_seconds(run, budget))
    except Exception:  # An operation raises whatever torch raises for it; the verdict says so already.
        return None
    return Timing(seconds=seconds[len(seconds) // 2], runs=len(seconds), threads=torch.get_num_threads())
