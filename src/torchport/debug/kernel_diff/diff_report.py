"""The result of KernelDiff: the engine's report, what varied between runs, and where the pictures are."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

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


def several(reports: Sequence[Report]) -> tuple[Report, dict[str, Spread]]:
    """The report to show for several runs, and how much each layer's own error varies."""
    shown = next((report for report in reports if not report.passed), reports[0])
    if len(reports) == 1:
        return shown, {}
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
    return shown.model_copy(update={"notes": (*shown.notes, note)}), spreads
