"""The result of `torchport diff`: one typed, versioned model, and the JSON that `--json` prints."""

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from torchport.parity.metrics import Metrics


class Entry(Metrics):
    """One name that both have, how far apart its tensors are, and whether that is near enough."""

    name: str
    """The name in A."""
    candidate_name: str
    """The name in B, before --map."""
    passed: bool
    rule: str
    ratio: float
    """The share of the rule's limit that the error takes up: above 1 fails."""
    reason: str | None
    """Why the entry failed, or None if it passed."""
    identical: bool
    """Whether both tensors are of one dtype and equal at every element; NaN equals NaN."""


class ComparedSet(BaseModel):
    """One of the two sets of tensors that were compared."""

    model_config = ConfigDict(frozen=True)

    given: str
    kind: str
    """file, sharded checkpoint, capture, run, or tensors (in memory)."""
    files: tuple[str, ...]
    """The files that were read."""
    tensors: int
    skipped: tuple[str, ...]
    """The names of values that are no tensors, and are not compared."""


class Difference(BaseModel):
    """How B differs from A. Entries are in the order of execution if a manifest tells it, else in that of A's file."""

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, serialize_by_alias=True, ser_json_inf_nan="strings"
    )

    schema_version: Literal[1] = Field(default=1, alias="schema")
    passed: bool
    rule: str
    a: ComparedSet
    b: ComparedSet
    order: Literal["execution", "file"]
    first_difference: Entry | None
    """The first entry that does not pass."""
    entries: tuple[Entry, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    """Names after --map."""
    identical: int
    within_tolerance: int
    """Entries that pass and are not identical."""
    differing: int
    ignored: tuple[str, ...]
    """Names that --ignore and --only left out."""
    warnings: tuple[str, ...]
    suggestion: str | None
    """A --map rule that would make more names agree."""
    elements: int
    """The number of elements that were compared."""
    seconds: float

    def to_json(self, indent: int | None = 2) -> str:
        return self.model_dump_json(indent=indent)

    def worst(self) -> list[Entry]:
        """The entries that are not identical: those that fail first, and the largest shares of the limit first."""
        return sorted((entry for entry in self.entries if not entry.identical), key=_goodness)


def is_identical(metrics: Metrics) -> bool:
    if metrics.incomparable is not None or metrics.golden_dtype != metrics.candidate_dtype:
        return False
    # The largest error is NaN if no element is finite in both; then NaN and Inf are compared by position.
    exact = metrics.max_abs == 0.0 or math.isnan(metrics.max_abs)
    return exact and metrics.mismatch_pct == 0.0


def _goodness(entry: Entry) -> tuple[bool, float, float]:
    ratio = math.inf if math.isnan(entry.ratio) else entry.ratio
    return entry.passed, -ratio, -math.inf if math.isnan(entry.max_abs) else -entry.max_abs
