"""KernelDiff's verdict on a row: whether the backend computes what eager PyTorch does, node by node."""

from __future__ import annotations

import torch

from torchport.bench.backends import Backend
from torchport.bench.results import Row
from torchport.capture.spec import Subject
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.debug.verdicts import Verdict
from torchport.runs.report import Report


def compared(row: Row, subject: Subject, backend: Backend) -> Row:
    """The row with a verdict. The forward pass is compared, since that is what was measured."""
    if not backend.runs_kernels:
        return _judged(row, "no kernel ran", None)
    torch.compiler.reset()
    harness = KernelDiffHarness(
        subject.model,
        (subject.args, subject.kwargs),
        model_name=row.model,
        test_backend=backend.given,
        config=ComparisonConfig(gradients=False),
    )
    diff = harness.compare()
    return _judged(row, diff.verdict, _reason(diff.report))


def _reason(report: Report) -> str | None:
    if (culprit := report.first_divergence) is None:
        return report.stopped
    place = f" at {culprit.source}" if culprit.source else ""
    return f"{culprit.layer} ({culprit.type}) differs{place}"


def _judged(row: Row, verdict: Verdict, reason: str | None) -> Row:
    return row.model_copy(update={"verdict": verdict, "verdict_reason": reason})
