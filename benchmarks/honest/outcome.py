"""What was said of each rewriting, counted by kind."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from torchport.parity.metrics import Noise
from torchport.runs.report import Report

from .rewriting import REWRITINGS, Arithmetic, Direction

ALARMS = 0.005
"""The largest share of honest rewritings that may be called wrong."""


@dataclass(frozen=True)
class Alarm:
    """What is said against a rewriting: the culprit, and by how much it is out of bounds."""

    layer: str | None
    type: str | None
    error: str
    """`own`, `chained`, or the code of the error that was raised."""
    reason: str
    elements: int | None = None
    noise: str | None = None

    def __str__(self) -> str:
        numbers = f" ({self.elements} elements, {self.noise})" if self.noise else ""
        return (
            f"{self.layer} ({self.type}), {self.error}: {self.reason}{numbers}" if self.layer else self.reason
        )


@dataclass(frozen=True)
class Outcome:
    kind: str
    model: str
    half: str
    direction: Direction
    arithmetic: Arithmetic
    is_declared: bool
    """Whether the comparison was told the arithmetic."""
    calls: int
    """Calls that passed through what was rewritten, in one forward pass."""
    status: str
    compared: int
    worst: float
    """The largest share of its limit that the own error of a layer takes up."""
    layer: str | None
    """The layer of that error."""
    rule: str | None
    alarm: Alarm | None
    seconds: float

    @property
    def is_alarm(self) -> bool:
        return self.status != "pass"

    def __str__(self) -> str:
        return (
            f"{self.kind} in {self.model}, {self.direction}: {self.status}, {self.worst:.3g} at {self.layer}"
        )


def alarm_of(report: Report) -> Alarm | None:
    found = report.first_divergence
    if report.passed:
        return None
    if found is None:
        return Alarm(None, None, report.status, f"{report.status}: nothing was compared")
    noise = found.metrics.noise if found.metrics else None
    elements = found.metrics.numel if found.metrics else None
    return Alarm(
        found.layer,
        found.type,
        found.kind,
        f"{found.what}: {found.reason}",
        elements,
        None if noise is None else _distances(noise),
    )


def _distances(noise: Noise) -> str:
    candidate, eager = (
        f"max {most:.2g}, rms {rms:.2g}"
        for most, rms in ((noise.candidate_max, noise.candidate_rms), (noise.floor_max, noise.floor_rms))
    )
    return f"candidate {candidate}, eager {eager} from the truth"


def worst_of(report: Report) -> tuple[float, str | None, str | None]:
    """The largest share of a limit, its layer and its rule."""
    measured = [(layer.own.ratio or 0.0, layer.name, layer.own.rule) for layer in report.layers if layer.own]
    return max(measured, key=lambda one: one[0], default=(0.0, None, None))


def share(outcomes: Sequence[Outcome]) -> float:
    return sum(one.is_alarm for one in outcomes) / len(outcomes) if outcomes else 1.0


def table(outcomes: Sequence[Outcome]) -> str:
    """The outcomes by kind, as Markdown."""
    heads = ["rewriting", "arithmetic", "models", "runs", "alarms", "worst", "s each"]
    rows = [_row(kind, [one for one in outcomes if one.kind == kind]) for kind in REWRITINGS]
    rows = [*(row for row in rows if row), _row("**all**", outcomes)]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = [heads, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines
    )


def _row(title: str, outcomes: Sequence[Outcome]) -> list[str]:
    if not outcomes:
        return []
    classes = {one.arithmetic for one in outcomes}
    declared = all(one.is_declared for one in outcomes)
    finite = [one.worst for one in outcomes if math.isfinite(one.worst)]
    return [
        title,
        (classes.pop() + ("" if declared else " (not told)")) if len(classes) == 1 else "",
        str(len({one.model for one in outcomes})),
        str(len(outcomes)),
        str(sum(one.is_alarm for one in outcomes)),
        f"{max(finite, default=0.0):.3g}",
        f"{sum(one.seconds for one in outcomes) / len(outcomes):.1f}",
    ]


def alarms(outcomes: Sequence[Outcome]) -> list[str]:
    """One line for each alarm, with what was said."""
    return [f"{one}; {one.alarm}" for one in outcomes if one.is_alarm]


def good_enough(outcomes: Sequence[Outcome]) -> bool:
    return bool(outcomes) and share(outcomes) <= ALARMS


def as_json(outcomes: Sequence[Outcome]) -> str:
    rows = [{**asdict(one), "worst": str(one.worst), "is_alarm": one.is_alarm} for one in outcomes]
    return json.dumps({"schema": 1, "outcomes": rows}, indent=1)
