"""A debugging run in words: the answer first, then what there is to know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import shorten

from torchport.debug.report import CHECK, DebugReport, Failure, KernelDiffSection
from torchport.explain.repro import counted

LONGEST_REASON = 160
"""How many characters of the reason of a failure stand in the first line."""
WORDS = {"pass": "PASS", "fail": "FAIL", "error": "ERROR"}


def headline(report: DebugReport) -> str:
    """What came of the run, in one sentence."""
    parts = [part for part in (_failed(report), _differs(report), _violated(report)) if part]
    if parts:
        return "; ".join(parts)
    return f"{counted(report.summary.total_graphs, 'graph')}, {kernel_diff(report.kernel_diff)}"


def _failed(report: DebugReport) -> str | None:
    if not report.failures:
        return None
    first = report.failures[0]
    message = first.message.partition("\n")[0].rstrip(": ")
    return f"{first.step} ended early: {shorten(message, LONGEST_REASON, placeholder=' …')}"


def graph(name: str, stage: str) -> str:
    """A graph and its stage; what runs outside of graphs is no graph."""
    return "outside of graphs" if stage == "outside" else f"{name}, {stage}"


def failure(found: Failure) -> str:
    """What ended early, and at which line of the user's."""
    at = f" ({found.where})" if found.where else ""
    return f"{found.step}: {found.message}{at}"


def _differs(report: DebugReport) -> str | None:
    diff = report.kernel_diff
    if diff is None or diff.verdict not in ("fail", "not proven"):
        return None
    if diff.verdict == "not proven":
        return diff.why
    if diff.culprit is None:
        return f"{diff.backend} does not compute what {diff.reference} computes"
    culprit = diff.culprit
    operation = f"{culprit.operation} in " if culprit.operation else ""
    at = f", {culprit.source}" if culprit.source else ""
    return f"{operation}{culprit.layer} is wrong{at}"


def _violated(report: DebugReport) -> str | None:
    found = Counter(violation.constraint for violation in report.constraints.violations)
    if not found:
        return None
    names = ", ".join(f"{name} {number}" if number > 1 else name for name, number in found.most_common())
    return f"{counted(found.total(), 'violation')} of constraints ({names})"


def kept(report: DebugReport) -> str | None:
    """The constraints that nothing violates; None if there is none, or one could not be checked."""
    section = report.constraints
    is_checked = not any(failure.step == CHECK for failure in report.failures)
    return ", ".join(section.checked) or None if is_checked and not section.violations else None


def overview(reports: Sequence[DebugReport]) -> str:
    """How many of several runs came to what."""
    found = Counter[str](report.status for report in reports)
    counts = ", ".join(f"{found[status]} {WORDS[status]}" for status in WORDS if found[status])
    return f"{counted(len(reports), 'run')}: {counts}"


def kernel_diff(diff: KernelDiffSection | None) -> str:
    """The verdict on the kernels, in words that promise no more than was seen."""
    if diff is None or diff.verdict == "not compared":
        return "values were not compared"
    if diff.verdict == "no kernel ran":
        return f"no kernel ran: {diff.backend} runs eager PyTorch, so there is nothing to compare"
    values = counted(diff.compared, "value")
    if diff.verdict in ("pass", "not proven"):
        return f"{values} agree with {diff.reference}"
    return f"{diff.backend} differs from {diff.reference}"


def breaks(report: DebugReport) -> str:
    summary = report.summary
    return f"{counted(summary.graph_breaks, 'break')}, {counted(summary.recompilations, 'recompilation')}"
