"""Writes docs/operations.md from the verdicts on all rows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from torchport.targets.candle.registry import OPS

from .direct import elsewhere
from .expected import EXPECTED, expected
from .row import Row

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
COUNTED = ("passed", "refused", "wrong")
_HEAD = """\
# Operations

What candle's table maps, and how much of it was compared with torch. `make operations` writes this page: it
runs operations over samples of torch's own database (`op_db`) and over samples of our own. Each sample is
captured and written as Rust as a model of yours is. All rows are one program, which is built and run once.

Operations that move, choose, compare, convert or round once must give torch's bits. The others are judged
by the rule of the [noise floor](verdicts.md). A sample is *refused* if the conversion says that it cannot
write it, and why. What torch refuses, the port must refuse, too. What is *expected to fail* has a reason below.

This page is of these rows, and no others:
"""

_TABLE = """\
## Every operation

A sample counts for each operation in it.

| operation | passed | refused | expected to fail |
|---|---|---|---|
"""


def write(rows: Sequence[Row]) -> str:
    """The page's text. It is of rows that passed, were refused, or are expected to fail."""
    if wrong := unexpected(rows):
        raise ValueError(f"{len(wrong)} rows fail and are not expected to, the first is {wrong[0].title}")
    return (
        "\n".join(
            [
                _HEAD,
                *_scope(rows),
                *_figures(rows),
                *_failures(rows),
                *_refusals(rows),
                *_elsewhere(),
                *_operations(rows),
            ]
        )
        + "\n"
    )


def listed(text: str) -> set[str]:
    """The operations that a page lists."""
    _, _, table = text.partition(_TABLE)
    return set(re.findall(r"^\| `(\w+\.[\w.]+)` \|", table, re.MULTILINE))


def uncovered(text: str) -> set[str]:
    """The operations that a page lists and no sample of it has, but for those that none can have."""
    return set(re.findall(r"^\| `([\w.]+)` \| 0 \| 0 \| 0 \|$", text, re.MULTILINE)) - elsewhere().keys()


def relisted(text: str) -> str:
    """A page that lists the operations of the table: those that are new to it have been in no sample yet."""
    head, _, table = text.partition(_TABLE)
    lines = {
        found.group(1): found.group()
        for found in re.finditer(r"^\| `((?!torch\.)\w+\.[\w.]+)` \|.*$", table, re.MULTILINE)
    }
    head = re.sub(r"(?<=\| operations in the table \| )\d+", str(len(OPS)), head)
    rows = [lines.get(operation, f"| `{operation}` | 0 | 0 | 0 |") for operation in sorted(OPS)]
    return head + _TABLE + "\n".join(rows) + "\n"


def share_expected(text: str) -> float:
    """The share of rows that are expected to fail, as a page says."""
    found = re.search(r"([\d.]+) % of the rows", text)
    assert found is not None
    return float(found.group(1))


def unexpected(rows: Iterable[Row]) -> list[Row]:
    """Rows that fail and are not expected to."""
    return [row for row in rows if row.verdict == "wrong" and expected(row) is None]


def stale(rows: Iterable[Row]) -> list[str]:
    """What is expected to fail, and does not."""
    failed = [row for row in rows if row.verdict == "wrong"]
    return [entry.name for entry in EXPECTED if not any(entry.matches(row) for row in failed)]


def tally(rows: Iterable[Row]) -> Counter[str]:
    return Counter(row.verdict for row in rows)


def _scope(rows: Sequence[Row]) -> Iterator[str]:
    """What was run, as the rows themselves say it."""
    yield "| samples | of operations | dtypes | rows | at most of an operation and dtype |"
    yield "|---|---|---|---|---|"
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        kinds[_kind(row)].append(row)
    for kind, of_kind in sorted(kinds.items()):
        names, dtypes = {row.name for row in of_kind}, sorted({row.dtype for row in of_kind})
        most = max(Counter((row.name, row.dtype) for row in of_kind).values())
        yield f"| {kind} | {len(names)} | {', '.join(dtypes)} | {len(of_kind)} | {most} |"
    yield ""


def _kind(row: Row) -> str:
    """What sort of sample a row is: from where, and what was made of it."""
    first, _, change = row.label.partition(", ")
    source = {"sample": "torch's database", "error": "torch's database, to be refused"}.get(
        first.split(" ")[0], "our own"
    )
    return f"{source}: {change}" if change and source != "our own" else source


def _figures(rows: Sequence[Row]) -> Iterator[str]:
    counts = tally(rows)
    total = sum(counts[verdict] for verdict in COUNTED)
    shown = {operation for row in rows if row.verdict in COUNTED for operation in row.operations} & OPS.keys()
    yield "| what | count |"
    yield "|---|---|"
    yield f"| operations in the table | {len(OPS)} |"
    yield f"| of these, in some sample | {len(shown)} |"
    yield f"| samples | {total} |"
    yield f"| passed | {counts['passed']} |"
    yield f"| refused | {counts['refused']} |"
    yield f"| expected to fail | {counts['wrong']} |"
    yield ""
    yield f"{100 * counts['wrong'] / max(1, total):.2f} % of the rows are expected to fail."
    yield (
        f"Besides, {counts['not mapped']} samples need an operation that the table does not have, and "
        f"{counts['not captured']} cannot be captured by torch.export."
    )
    yield ""


def _failures(rows: Sequence[Row]) -> Iterator[str]:
    counts = Counter(expected(row) for row in rows if row.verdict == "wrong")
    yield "## Expected to fail"
    yield ""
    yield "| operation | dtypes | samples | rows | reason |"
    yield "|---|---|---|---|---|"
    for entry in EXPECTED:
        yield f"| `{entry.name}` | {entry.dtypes} | {entry.label} | {counts[entry]} | {entry.reason} |"
    yield ""


def _refusals(rows: Sequence[Row]) -> Iterator[str]:
    counts = Counter(row.reason.split("; ")[0] for row in rows if row.verdict == "refused")
    yield "## Refused"
    yield ""
    yield "| operation | reason | rows |"
    yield "|---|---|---|"
    for text, count in sorted(counts.items()):
        operation, _, reason = text.partition(": ")
        yield f"| {operation} | {reason.replace('|', '/')} | {count} |"
    yield ""


def _elsewhere() -> Iterator[str]:
    yield "## In no sample"
    yield ""
    yield "| operation | reason |"
    yield "|---|---|"
    for operation, reason in sorted(elsewhere().items()):
        yield f"| {operation} | {reason} |"
    yield ""


def _operations(rows: Sequence[Row]) -> Iterator[str]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        for operation in row.operations:
            counts[operation][row.verdict] += 1
    yield _TABLE.rstrip("\n")
    for operation in sorted(OPS):
        count = counts[operation]
        yield f"| `{operation}` | {count['passed']} | {count['refused']} | {count['wrong']} |"
