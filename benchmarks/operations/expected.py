"""The rows that are expected to fail, each with the reason. A test holds how many patterns there are."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from .sample import Sample


@dataclass(frozen=True)
class Expected:
    """Samples that fail: patterns of a name, of dtypes and of a label, as a shell has them."""

    name: str
    reason: str
    dtypes: str = "*"
    label: str = "*"

    def matches(self, sample: Sample) -> bool:
        dtype = str(sample.dtype).removeprefix("torch.")
        return (
            fnmatchcase(sample.name, self.name)
            and any(fnmatchcase(dtype, pattern) for pattern in self.dtypes.split())
            and fnmatchcase(sample.label, self.label)
        )


EXPECTED: tuple[Expected, ...] = ()


def expected(sample: Sample) -> Expected | None:
    """The entry for a sample that may fail; None if it must pass."""
    return next((entry for entry in EXPECTED if entry.matches(sample)), None)
