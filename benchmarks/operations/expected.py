"""The rows that are expected to fail, each with the reason. A test holds how many patterns there are."""

from __future__ import annotations

from dataclasses import dataclass

from .row import Row


@dataclass(frozen=True)
class Expected:
    """Samples that fail, and how: another fault of the same samples is not expected."""

    name: str
    reason: str
    dtypes: str
    """The names of dtypes."""
    label: str
    """The beginning of a label."""
    fault: str
    """The beginning of what is found to be wrong."""

    def matches(self, row: Row) -> bool:
        return (
            row.name == self.name
            and row.dtype in self.dtypes.split()
            and row.label.startswith(self.label)
            and row.reason.startswith(self.fault)
        )


EXPECTED: tuple[Expected, ...] = (
    Expected(
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",
        "torch decomposes this private operation, and its decomposition gives another second tensor than its kernel",
        dtypes="float64 float32 float16 bfloat16",
        label="sample",
        fault="result 1: ",
    ),
    Expected(
        "linalg.eigh",
        "an eigenvector is one with either sign, and LAPACK chooses it",
        dtypes="float64",
        label="sample",
        fault="result 1: ",
    ),
)


def expected(row: Row) -> Expected | None:
    """The entry for a row that may fail; None if it must pass."""
    return next((entry for entry in EXPECTED if entry.matches(row)), None)
