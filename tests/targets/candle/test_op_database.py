"""Samples of operations of our own: captured, built, run, compared by bits."""

from __future__ import annotations

import pytest
import torch

from benchmarks.operations import page
from benchmarks.operations.campaign import Amount, Row, run
from benchmarks.operations.checking import difference
from benchmarks.operations.corners import corners
from benchmarks.operations.expected import EXPECTED
from benchmarks.operations.sample import Sample


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> list[Row]:
    return run(corners(), Amount(samples=1, varied=0), tmp_path_factory.mktemp("operations"))


def test_samples_of_operations_compute_what_torch_computes(rows: list[Row]) -> None:
    assert [f"{row.sample.title}: {row.reason}" for row in page.unexpected(rows)] == []


def test_no_corner_is_left_out(rows: list[Row]) -> None:
    left_out = [
        f"{row.sample.title}: {row.reason}"
        for row in rows
        if row.sample.label.startswith("corner") and row.verdict in ("refused", "not mapped", "not captured")
    ]
    assert left_out == []


def test_what_is_expected_to_fail_is_counted() -> None:
    assert len(EXPECTED) == 0
    assert all(entry.reason for entry in EXPECTED)


def checked(operation: str, x: torch.Tensor, golden: torch.Tensor, candidate: torch.Tensor) -> str | None:
    sample = Sample("planted", x.dtype, "", torch.clone, (x,), {})
    return difference(sample, [operation], [golden], [candidate], None)


X = torch.tensor([3.0, 1.0, 3.0, -0.0])
SORTED = torch.tensor([3, 1, 0, 2])


@pytest.mark.parametrize(
    ("operation", "golden", "candidate"),
    [
        ("aten.mul.Tensor", X, X.abs()),
        ("aten.mul.Tensor", X, X.nextafter(X + 1)),
        ("aten.mul.Tensor", X, X.double()),
        ("aten.mul.Tensor", X, X[None]),
        ("aten.exp.default", X, X + 1e-3),
        ("aten.exp.default", X, X.where(X < 3, torch.nan)),
        ("aten.eq.Tensor", X > 1, (X > 1).byte() * 2),
        ("aten.argsort.default", SORTED, torch.tensor([3, 1, 0, 0])),
        ("aten.argsort.default", SORTED, torch.tensor([3, 0, 1, 2])),
        ("aten.argsort.default", SORTED, torch.tensor([3, 1, 2, 4])),
    ],
)
def test_a_wrong_answer_is_found(operation: str, golden: torch.Tensor, candidate: torch.Tensor) -> None:
    assert checked(operation, X, golden, golden) is None
    assert checked(operation, X, golden, candidate) is not None


def test_each_order_of_equal_elements_is_right() -> None:
    assert checked("aten.argsort.default", X, SORTED, torch.tensor([3, 1, 2, 0])) is None
