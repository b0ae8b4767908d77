"""What a run of the port and of the original takes, measured here with as many threads: indicative, and no verdict.

The port's is the median of some runs and the original's the best: threads of PyTorch that wait for each other are slow
on a busy machine, and a report should not flatter the port.
"""

from __future__ import annotations

import copy
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

from torchport.capture.random_numbers import random_numbers_kept
from torchport.runs.report import Cost
from torchport.targets.base import Artifact, Timed, Timing
from torchport.targets.stopwatch import run_seconds

BUDGET = 0.05
"""The seconds for either of them, after a run that warms up."""


def cost_of(artifact: Artifact, golden: Path, original: Original | None) -> Cost | None:
    """What both take; None if the target does not say what its artifact takes."""
    port = artifact.timed(golden, torch.get_num_threads(), BUDGET) if isinstance(artifact, Timed) else None
    return None if port is None else Cost(port=port, original=None if original is None else timed(original))


Original = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]
"""A model that keeps nothing from one call to the next, and its inputs."""


def timed(original: Original) -> Timing | None:
    """What a run of the original takes; None if it is not on the CPU, or cannot be run again."""
    model, args, kwargs = original
    tensors = [*model.parameters(), *model.buffers()]
    if any(tensor.device.type != "cpu" for tensor in tensors):
        return None
    try:
        # Whatever forward keeps in the model or in a cache that it is given, it keeps in a copy.
        model = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors}).eval()
        args, kwargs = copy.deepcopy((args, kwargs))
        with torch.no_grad(), random_numbers_kept(), redirect_stdout(None):
            seconds = run_seconds(lambda: model(*args, **kwargs), BUDGET)
    except Exception:  # The model's own code raises what it likes; the verdict stands without.
        return None
    return Timing(
        seconds=min(seconds),
        runs=len(seconds),
        threads=torch.get_num_threads(),
        bytes=_resident_bytes(),
    )


def _resident_bytes() -> int | None:
    """The memory of this process, which holds PyTorch; None if the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
    except (OSError, StopIteration, ValueError):
        return None
