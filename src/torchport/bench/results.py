"""What benchmarks find: one row for each model under each backend. As JSON, fields may be added, never renamed."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field

from torchport.debug.verdicts import Verdict
from torchport.files import write_atomically

Status = Literal["measured", "failed", "timeout", "unavailable"]


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, populate_by_name=True, serialize_by_alias=True, ser_json_inf_nan="strings"
    )


class Latency(_Frozen):
    """How long one call takes, in milliseconds, over a number of runs."""

    average: float
    deviation: float
    """The standard deviation; 0 if there was one run."""
    median: float
    runs: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Self:
        taken = [1000 * one for one in seconds]
        deviation = statistics.stdev(taken) if len(taken) > 1 else 0.0
        return cls(
            average=statistics.fmean(taken),
            deviation=deviation,
            median=statistics.median(taken),
            runs=len(taken),
        )


class BrokenConstraint(_Frozen):
    constraint: str
    message: str
    op: str
    module: str
    source: str | None
    """The user's line, `file:line`."""


class Row(_Frozen):
    """One model under one backend. What was not measured is None."""

    model: str
    backend: str
    status: Status
    problem: str | None = None
    """Why it is not measured, or not compared."""
    compile_seconds: float | None = None
    """The first call less a usual one."""
    latency: Latency | None = None
    eager: Latency | None = None
    """Eager PyTorch in the same process, a call of each in turn."""
    speedup: float | None = None
    """The median of eager PyTorch over the backend's."""
    peak_memory_bytes: int | None = None
    """Weights, inputs, and the most that one call has allocated at a time."""
    eager_peak_memory_bytes: int | None = None
    process_peak_bytes: int | None = None
    """The most memory that the whole process has taken, compilers included."""
    graphs: int | None = None
    breaks: int | None = None
    violations: int | None = None
    """None if the backend checks nothing."""
    first_violations: tuple[BrokenConstraint, ...] = ()
    verdict: Verdict = "not compared"
    verdict_reason: str | None = None

    @property
    def is_bad(self) -> bool:
        return self.status in ("failed", "timeout") or self.verdict == "fail"


class Summary(NamedTuple):
    """A model in one line: eager PyTorch and the backend, side by side."""

    model: str
    eager_ms: float | None
    backend_ms: float | None
    speedup: float | None
    verdict: str


class Results(_Frozen):
    schema_version: Literal[1] = Field(default=1, alias="schema")
    created: str
    torch: str
    device: str
    """What was computed on: cpu, or the name of the graphics card."""
    threads: int
    """That torch computes with on a CPU."""
    warmup: int
    runs: int
    rows: tuple[Row, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every row that could be had was measured, and none computes something else."""
        return not any(row.is_bad for row in self.rows)

    def summary(self, backend: str = "inductor") -> Iterator[Summary]:
        """Each model in one line."""
        for name in dict.fromkeys(row.model for row in self.rows):
            rows = {row.backend: row for row in self.rows if row.model == name}
            chosen = rows.get(backend)
            eager = chosen.eager if chosen and chosen.eager else _latency(rows.get("eager"))
            compiled = _latency(chosen)
            yield Summary(
                model=name,
                eager_ms=eager.median if eager else None,
                backend_ms=compiled.median if compiled else None,
                speedup=chosen.speedup if chosen else None,
                verdict=_word(chosen),
            )

    def to_json(self) -> str:
        return self.model_dump_json(indent=2)

    def save(self, path: Path) -> None:
        write_atomically(path, f"{self.to_json()}\n")


def _latency(row: Row | None) -> Latency | None:
    return row.latency if row else None


def _word(row: Row | None) -> str:
    if row is None:
        return "not run"
    return row.verdict if row.status == "measured" else row.status
