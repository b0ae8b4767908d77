"""The verdict on one sample, and files of verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from torchport.files import write_atomically

Verdict = Literal["passed", "refused", "wrong", "not mapped", "not captured"]


@dataclass(frozen=True)
class Row:
    name: str
    """The operation, as torch's database calls it."""
    dtype: str
    label: str
    verdict: Verdict
    reason: str
    operations: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.name} {self.dtype} {self.label}"


def save(rows: Sequence[Row], file: Path) -> None:
    write_atomically(file, "\n".join(json.dumps(asdict(row)) for row in rows) + "\n")


def load(files: Iterable[Path]) -> list[Row]:
    """The rows of several files; of a sample that is in two, the later verdict."""
    lines = (json.loads(line) for file in files for line in file.read_text().splitlines())
    rows = (Row(**{**line, "operations": tuple(line["operations"])}) for line in lines)
    return list({row.title: row for row in rows}.values())
