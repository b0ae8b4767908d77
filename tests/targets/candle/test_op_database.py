"""A part of torch's database of operations, and samples of our own: captured, built, run, compared by bits."""

from __future__ import annotations

from itertools import chain, islice

import pytest
import torch

from benchmarks.operations import page
from benchmarks.operations.campaign import Amount, run
from benchmarks.operations.checking import difference
from benchmarks.operations.corners import corners
from benchmarks.operations.database import entries
from benchmarks.operations.direct import direct
from benchmarks.operations.expected import EXPECTED
from benchmarks.operations.row import Row
from benchmarks.operations.sample import Sample
from torchport.targets.candle.registry import OPS

DTYPES = (torch.float32, torch.bfloat16, torch.int64)
EACH = 8
"""One of so many entries of the database is taken."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory, cargo: str) -> list[Row]:
    part = (
        sample
        for entry in entries()[::EACH]
        for dtype in DTYPES
        for sample in islice(entry.samples(dtype), 1)
    )
    by_name = {sample.name: sample for sample in direct()}
    return run(
        chain(corners(), by_name.values(), part),
        Amount(samples=1, varied=0),
        tmp_path_factory.mktemp("operations"),
    )


def test_samples_of_operations_compute_what_torch_computes(rows: list[Row]) -> None:
    assert [f"{row.title}: {row.reason}" for row in page.unexpected(rows)] == []


def test_no_corner_is_left_out(rows: list[Row]) -> None:
    left_out = [
        f"{row.title}: {row.reason}"
        for row in rows
        if row.label.startswith(("corner", "direct"))
        and row.verdict in ("refused", "not mapped", "not captured")
    ]
    assert left_out == []


def test_the_page_lists_the_operations_of_the_table() -> None:
    assert page.listed(page.PAGE.read_text()) == set(OPS)


def test_nearly_every_operation_of_the_table_is_in_some_sample() -> None:
    # Operations that were added since are in none until the page is written again.
    assert len(page.uncovered(page.PAGE.read_text())) < len(OPS) / 20


def test_a_page_takes_new_operations_in_and_keeps_the_figures_of_the_others() -> None:
    text = page.PAGE.read_text()
    without = "\n".join(line for line in text.splitlines() if "`aten.relu.default`" not in line)
    assert page.relisted(text) == text
    assert page.listed(page.relisted(without)) == set(OPS)


def test_few_rows_are_expected_to_fail() -> None:
    assert page.share_expected(page.PAGE.read_text()) < 2


def test_what_is_expected_to_fail_is_counted() -> None:
    assert len(EXPECTED) == 2
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
