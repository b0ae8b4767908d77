"""A part of torch's database of operations, and samples of our own: captured, built, run, compared by bits."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice

import pytest
import torch

from benchmarks.operations import page
from benchmarks.operations.campaign import Amount, Known, computed, judged_rows, run
from benchmarks.operations.capturing import Captured, capture
from benchmarks.operations.checking import difference
from benchmarks.operations.corners import corners
from benchmarks.operations.database import entries
from benchmarks.operations.direct import direct
from benchmarks.operations.expected import EXPECTED
from benchmarks.operations.row import Row, Verdict
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
    refused = (sample for entry in entries()[::EACH] for sample in entry.raising())
    by_name = {sample.name: sample for sample in direct()}
    return run(
        chain(corners(), by_name.values(), part, refused),
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


def row(name: str, label: str, verdict: Verdict, reason: str = "", dtype: str = "float32") -> Row:
    return Row(name, dtype, label, verdict, reason, ("aten.relu.default",))


def test_another_fault_of_what_is_expected_to_fail_is_not_expected() -> None:
    expected_one = row("linalg.eigh", "sample 0", "wrong", "result 1: it differs", "float64")
    assert page.unexpected([expected_one]) == []
    for other in (
        replace(expected_one, reason="result 0: it differs"),
        replace(expected_one, reason="the program ended before this row"),
        replace(expected_one, dtype="float32"),
        replace(expected_one, label="corner 0"),
        replace(expected_one, name="linalg.eigh.other"),
    ):
        assert page.unexpected([other]) == [other]


def test_no_page_counts_what_fails_and_is_not_expected_to() -> None:
    with pytest.raises(ValueError, match=r"relu float32 sample 0"):
        page.write([row("relu", "sample 0", "wrong", "result 0: it differs")])


def test_a_page_says_of_which_rows_it_is() -> None:
    rows = [
        row("relu", "sample 0", "passed"),
        row("relu", "sample 1", "passed"),
        row("relu", "sample 0", "passed", dtype="int64"),
        row("exp", "sample 0, a NaN", "passed"),
        row("exp", "corner 0", "refused", "exp: why"),
    ]
    text = page.write(rows)
    assert "| torch's database | 1 | float32, int64 | 3 | 2 |" in text
    assert "| torch's database: a NaN | 1 | float32 | 1 | 1 |" in text
    assert "| our own | 1 | float32 | 1 | 1 |" in text
    assert "to be refused" not in text and "an infinity" not in text
    assert "| expected to fail | 0 |" in text


def test_what_torch_refuses_comes_from_its_database_with_the_kind_of_error() -> None:
    (entry,) = [entry for entry in entries() if entry.name == "gather"]
    raising = list(entry.raising())
    assert raising and all(sample.raises is not None for sample in raising)
    for sample in raising:
        with pytest.raises(sample.raises or Exception):
            sample.computed()
    assert len(list(computed(raising))) == len(raising)
    assert list(computed([replace(sample, raises=KeyError) for sample in raising])) == []


def test_an_answer_or_a_panic_where_torch_raises_is_wrong() -> None:
    sample = Sample("planted", X.dtype, "error 0", torch.relu, (X,), {}, raises=RuntimeError)
    captured = next(found for found in capture([sample]) if isinstance(found, Captured))
    known = Known(sample, None, None)

    def verdict(answer: list[torch.Tensor] | str) -> str:
        (found,) = judged_rows({0: (known, captured)}, {0: answer})
        return found.verdict

    assert verdict("error: index out of bounds") == "passed"
    assert verdict([X]) == "wrong"
    assert verdict("panic: attempt to divide by zero") == "wrong"


def topmost(candidate: tuple[torch.Tensor, torch.Tensor], **options: bool) -> str | None:
    """What is wrong with an answer for the three largest of four numbers."""
    golden = X.topk(3, **options)
    sample = Sample("planted", X.dtype, "", torch.topk, (X, 3), dict(options))
    return difference(sample, ["aten.topk.default"], list(golden), list(candidate), None)


def test_topk_without_order_is_right_in_every_order_and_with_each_of_equal_elements() -> None:
    for indices in ([0, 2, 1], [2, 1, 0], [1, 0, 2]):
        assert topmost((X[indices], torch.tensor(indices)), sorted=False) is None
    assert topmost((torch.tensor([3.0, 3.0, 1.0]), torch.tensor([2, 0, 1]))) is None


@pytest.mark.parametrize(
    ("values", "indices", "is_sorted"),
    [
        ([3.0, 1.0, 3.0], [0, 1, 2], True),
        ([3.0, 3.0, -0.0], [0, 2, 3], False),
        ([3.0, 3.0, 1.0], [0, 0, 1], False),
        ([3.0, 3.0, 1.0], [0, 1, 2], False),
        ([3.0, 3.0, 1.0], [0, 2, 4], False),
        ([3.0, 3.0, 2.0], [0, 2, 1], False),
    ],
)
def test_a_wrong_answer_of_topk_is_found(values: list[float], indices: list[int], is_sorted: bool) -> None:
    assert topmost((torch.tensor(values), torch.tensor(indices)), sorted=is_sorted) is not None


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
