"""From the traces in a run's folder to its report: the one way in which a port and a PyTorch candidate are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchport.events import LayerJudged, Steps
from torchport.parity.compare import compare_traces
from torchport.parity.result import Parity
from torchport.parity.rulebook import RuleBook
from torchport.runs.folder import RunFolder
from torchport.runs.report import Report
from torchport.trace.plan import Plan


def compare_run(
    files: RunFolder,
    plan: Plan,
    rules: RuleBook,
    steps: Steps,
    operations: Mapping[str, Sequence[str]] | None = None,
) -> Parity:
    """Compares what the candidate computed with the recording, call by call."""
    truth = files.captured("truth")
    with steps.step("compare", "comparing every layer"):
        return compare_traces(
            files.captured("trace"),
            files.record("lockstep"),
            files.record("chained"),
            calls=plan.calls.values(),
            events=plan.events,
            truth=truth if truth.is_file() else None,
            rules=rules,
            operations=operations,
            judged=lambda layer: steps.watch(LayerJudged(layer)),
        )


def written(report: Report, files: RunFolder) -> Report:
    """The report with its own place in it, as it was written to the folder of the run."""
    report = report.model_copy(update={"report": str(files.report)})
    report.write(files.report)
    return report
