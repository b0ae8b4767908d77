"""What came of each fault, counted by kind, and whether that is good enough."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from torchport.runs.report import Report

from .campaign import Planted
from .kinds import KINDS

DETECTED, BLAMED, SUGGESTED = 1.0, 0.97, 0.60
"""The least shares: of faults that fail, that are traced to their layer, and that are explained where a kind can be."""


@dataclass(frozen=True)
class Outcome:
    kind: str
    model: str
    way: str
    fault: str
    place: str
    culprit: str
    """The layer that must be blamed."""
    floors: float
    """How many noise floors the fault moves the culprit's value, as torch computes it."""
    status: str
    blamed: str | None
    reason: str | None
    suggestion: str | None
    suggestions: tuple[str, ...]
    operation: str | None
    seconds: float

    @classmethod
    def of(cls, planted: Planted, report: Report, seconds: float) -> Outcome:
        found = report.first_divergence
        kinds = tuple(suggestion.kind for suggestion in found.suggestions) if found else ()
        return cls(
            **_facts(planted),
            status=report.status,
            blamed=found.layer if found else None,
            reason=f"{found.what}: {found.reason}" if found else None,
            suggestion=kinds[0] if kinds else None,
            suggestions=kinds,
            operation=found.operation.op if found and found.operation else None,
            seconds=round(seconds, 2),
        )

    @classmethod
    def of_error(cls, planted: Planted, error: Exception, seconds: float) -> Outcome:
        """What could not be checked is not detected: an error is no verdict."""
        return cls(
            **_facts(planted),
            status="error",
            blamed=None,
            reason=f"{type(error).__name__}: {error}",
            suggestion=None,
            suggestions=(),
            operation=None,
            seconds=round(seconds, 2),
        )

    @property
    def detected(self) -> bool:
        return self.status == "fail"

    @property
    def exact(self) -> bool:
        return self.detected and self.blamed == self.culprit

    @property
    def covered(self) -> bool:
        return bool(KINDS[self.kind])

    @property
    def explained(self) -> bool:
        return self.covered and self.suggestion in KINDS[self.kind]

    def __str__(self) -> str:
        said = f"{self.status}, {self.blamed} blamed" if self.blamed else self.status
        return f"{self.kind} ({self.way}, {self.fault}) at {self.place} of {self.model}: {said}"


def _facts(planted: Planted) -> dict:
    names = ("kind", "model", "way", "fault", "place", "culprit")
    return {**{name: getattr(planted, name) for name in names}, "floors": planted.effect.floors}


@dataclass(frozen=True)
class Share:
    count: int
    of: int

    @property
    def value(self) -> float:
        return self.count / self.of if self.of else 1.0

    def __str__(self) -> str:
        return f"{self.count}/{self.of}" if self.of else "–"


def shares(outcomes: Sequence[Outcome]) -> tuple[Share, Share, Share]:
    """How many were detected, traced to their layer, and explained, of those that could be."""
    covered = [one for one in outcomes if one.covered]
    return (
        Share(sum(one.detected for one in outcomes), len(outcomes)),
        Share(sum(one.exact for one in outcomes), len(outcomes)),
        Share(sum(one.explained for one in covered), len(covered)),
    )


def table(outcomes: Sequence[Outcome], *, suggestions: bool) -> str:
    """The outcomes by kind, as Markdown."""
    heads = ["fault", "models", "planted", "detected", "right layer", "right cause", "s each"]
    rows = [_row(kind, [one for one in outcomes if one.kind == kind]) for kind in KINDS]
    rows = [*(row for row in rows if row), _row("**all**", outcomes)]
    if not suggestions:
        rows, heads = [row[:5] + row[6:] for row in rows], heads[:5] + heads[6:]
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    lines = [heads, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in lines
    )


def _row(title: str, outcomes: Sequence[Outcome]) -> list[str]:
    if not outcomes:
        return []
    detected, exact, explained = shares(outcomes)
    seconds = sum(one.seconds for one in outcomes) / len(outcomes)
    models = len({one.model for one in outcomes})
    return [
        title,
        str(models),
        str(len(outcomes)),
        str(detected),
        str(exact),
        str(explained),
        f"{seconds:.1f}",
    ]


def missed(outcomes: Iterable[Outcome]) -> list[str]:
    """One line for each fault that was not detected, or blamed on another layer."""
    return [
        f"{one}; expected {one.culprit}, moved {one.floors:.3g} floors; {one.reason}"
        for one in outcomes
        if not one.exact
    ]


def good_enough(outcomes: Sequence[Outcome], *, suggestions: bool) -> bool:
    detected, exact, explained = shares(outcomes)
    explains = not suggestions or explained.value >= SUGGESTED
    return bool(outcomes) and detected.value >= DETECTED and exact.value >= BLAMED and explains


def as_json(outcomes: Sequence[Outcome]) -> str:
    judged = ("detected", "exact", "covered", "explained")
    rows = [
        {**asdict(one), "floors": str(one.floors), **{name: getattr(one, name) for name in judged}}
        for one in outcomes
    ]
    return json.dumps({"schema": 1, "outcomes": rows}, indent=1)
