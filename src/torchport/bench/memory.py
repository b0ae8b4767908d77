"""How much memory one call takes at its peak: by CUDA's own count, or by what the CPU's allocator reports."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchport.capture.spec import Subject
from torchport.capture.torch_internals import pytree, storage_id


def peak_of(call: Callable[[], Any], subject: Subject, device: str) -> int:
    """Bytes of weights, inputs, and the most that a call has allocated at a time."""
    if torch.device(device).type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device)
    return held_by(subject) + allocated_by(call)


def held_by(subject: Subject) -> int:
    """Bytes of a model's weights and inputs; memory that several share counts once."""
    given = [leaf for leaf in pytree.tree_leaves((subject.args, subject.kwargs)) if isinstance(leaf, Tensor)]
    tensors: Iterable[Tensor] = [*subject.model.parameters(), *subject.model.buffers(), *given]
    return sum({storage_id(one): one.untyped_storage().nbytes() for one in tensors}.values())


def allocated_by(call: Callable[[], Any]) -> int:
    """The most bytes that a call has allocated on the CPU at a time, by torch's profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        call()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(file))
        events = json.loads(file.read_text(errors="replace"))["traceEvents"]
    changes = sorted(
        (event["ts"], event["args"].get("Ev Idx", 0), event["args"]["Bytes"])
        for event in events
        if event.get("name") == "[memory]" and event["args"]["Device Type"] == 0
    )
    now = most = 0
    for _, _, change in changes:
        now += change
        most = max(most, now)
    return most


def process_peak() -> int | None:
    """The most bytes that this process has taken so far; None if the system does not say."""
    try:
        import resource
    except ImportError:  # Windows.
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
