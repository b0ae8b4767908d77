"""What `torchport diff` found: one typed, versioned model, and the JSON that `--json` prints."""

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from torchport.parity.metrics import Metrics


class Entry(Metrics):
    """One name that both have, how far apart its tensors are, and whether that is near enough."""

    name: str
    """What A calls it."""
    candidate_name: str
    """What B calls it, before --map."""
    passed: bool
    rule: str
    ratio: float
    """How near the limit of the rule: above 1 fails."""
    reason: str | None
    """Why it failed."""
    identical: bool
    """Of one dtype, and equal at every element; NaN equals NaN."""


class Side(BaseModel):
    """One of the two that were compared."""

    model_config = ConfigDict(frozen=True)

    given: str
    kind: str
    """file, sharded checkpoint, capture, run, or tensors (in memory)."""
    files: tuple[str, ...]
    """The files that were taken for it."""
    tensors: int
    skipped: tuple[str, ...]
    """Names of what is no tensor, and is not compared."""


class Difference(BaseModel):
    """Whether B is what A is. Entries are in the order of execution where a manifest tells it, else of A's file."""

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, serialize_by_alias=True, ser_json_inf_nan="strings"
    )

    schema_version: Literal[1] = Field(default=1, alias="schema")
    passed: bool
    rule: str
    a: Side
    b: Side
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
    """Elements of A that were set against one of B."""
    seconds: float

    def to_json(self, indent: int | None = 2) -> str:
        return self.model_dump_json(indent=indent)

    def worst(self) -> list[Entry]:
        """The entries that are not identical: first what fails, by how far it is over the limit."""
        return sorted((entry for entry in self.entries if not entry.identical), key=_goodness)


def is_identical(metrics: Metrics) -> bool:
    if metrics.incomparable is not None or metrics.golden_dtype != metrics.candidate_dtype:
        return False
    # The largest error is NaN where no element is finite; then positions have the say.
    exact = metrics.max_abs == 0.0 or math.isnan(metrics.max_abs)
    return exact and metrics.mismatch_pct == 0.0


def _goodness(entry: Entry) -> tuple[bool, float, float]:
    ratio = math.inf if math.isnan(entry.ratio) else entry.ratio
    return entry.passed, -ratio, -math.inf if math.isnan(entry.max_abs) else -entry.max_abs
