"""KernelDiff's verdict on a row: whether the backend computes what eager PyTorch does."""

from __future__ import annotations

from torchport.bench.backends import Backend
from torchport.bench.results import Row
from torchport.capture.spec import Subject


def compared(row: Row, subject: Subject, backend: Backend) -> Row:
    return row.model_copy(update={"verdict": "not compared", "verdict_reason": "KernelDiff is not there"})
