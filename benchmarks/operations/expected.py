"""The rows that are expected to fail, each with the reason. A test holds how many patterns there are."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from .row import Row


@dataclass(frozen=True)
class Expected:
    """Samples that fail: patterns of a name, of dtypes and of a label, as a shell has them."""

    name: str
    reason: str
    dtypes: str = "*"
    label: str = "*"

    def matches(self, row: Row) -> bool:
        return (
            fnmatchcase(row.name, self.name)
            and any(fnmatchcase(row.dtype, pattern) for pattern in self.dtypes.split())
            and fnmatchcase(row.label, self.label)
        )


EXPECTED: tuple[Expected, ...] = (
    Expected(
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",
        "torch decomposes this private operation, and its decomposition gives another second tensor than its kernel",
    ),
    Expected("linalg.eigh", "an eigenvector is one with either sign, and LAPACK chooses it", "float64"),
)


def expected(row: Row) -> Expected | None:
    """The entry for a row that may fail; None if it must pass."""
    return next((entry for entry in EXPECTED if entry.matches(row)), None)
