"""The result of KernelDiff: the engine's report, what varied between runs, and where the pictures are."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torchport.debug.kernel_diff.notes import Finished
from torchport.debug.verdicts import Verdict
from torchport.report import terminal
from torchport.runs.report import Report


@dataclass(frozen=True)
class Spread:
    """The largest own error of a layer over several runs."""

    mean: float
    deviation: float
    largest: float


@dataclass(frozen=True)
class DiffReport:
    report: Report
    """Of the run that failed first, or else of the first one."""
    verdict: Verdict
    """Of that run. `not proven` is no pass: eager PyTorch computed a graph that the backend was given."""
    runs: tuple[Report, ...]
    variance: dict[str, Spread] = field(default_factory=dict)
    """By layer, if there were several runs."""
    pictures: tuple[Path, ...] = ()

    @property
    def passed(self) -> bool:
        return self.report.passed

    @property
    def status(self) -> str:
        return self.report.status

    def summary(self) -> str:
        """The verdict as text: the culprit with its line, the layers nearest the limit, notes, and pictures."""
        text = terminal.plain(lambda console: terminal.render(self.report, console))
        return text + "".join(f"Picture  {path}\n" for path in self.pictures)


def several(runs: Sequence[Finished]) -> tuple[Finished, dict[str, Spread]]:
    """The run to show of several, and how much each layer's own error varies."""
    shown = next((run for run in runs if not run.report.passed), runs[0])
    if len(runs) == 1:
        return shown, {}
    reports = [run.report for run in runs]
    errors: dict[str, list[float]] = {}
    for report in reports:
        for layer in report.layers:
            if layer.own is not None:
                errors.setdefault(layer.name, []).append(layer.own.max_abs)
    spreads = {
        name: Spread(statistics.fmean(known), statistics.pstdev(known), max(known))
        for name, known in errors.items()
    }
    varying = [name for name, spread in spreads.items() if spread.deviation > 0]
    some = ", ".join(varying[:3]) + (f" and {len(varying) - 3} more" if len(varying) > 3 else "")
    note = f"{len(reports)} runs: {f'the errors of {some} vary' if varying else 'all errors are the same'}"
    failed = sum(not report.passed for report in reports)
    note += f"; {failed} of them fail" if failed else ""
    report = shown.report.model_copy(update={"notes": (*shown.report.notes, note)})
    return replace(shown, report=report), spreads
