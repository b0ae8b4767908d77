"""`python -m benchmarks.operations [--only NAME,…]`, or `make operations`, which writes docs/operations.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from torchport.files import write_atomically

from . import page, row
from .campaign import EVERYTHING, Amount, run
from .corners import corners
from .database import entries
from .direct import direct

VERDICTS = "verdicts.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operations")
    parser.add_argument(
        "--only", help="names of operations, as torch's database has them; no page is written"
    )
    parser.add_argument(
        "--part", help="I/N: every N-th entry of the database from the I-th; no page is written"
    )
    parser.add_argument("--samples", type=int, default=EVERYTHING.samples, help="of each operation and dtype")
    parser.add_argument("--folder", type=Path, help="where the program and the verdicts are kept")
    parser.add_argument(
        "--page", nargs="+", type=Path, help="writes the page of folders of parts that were run"
    )
    parser.add_argument(
        "--list", action="store_true", help="puts operations that are new into the page; runs none"
    )
    options = parser.parse_args()
    if options.list:
        return write_atomically(page.PAGE, page.relisted(page.PAGE.read_text()))
    if options.page:
        return _finished(row.load(folder / VERDICTS for folder in options.page), is_whole=True)
    names = options.only.split(",") if options.only else None
    own = [sample for sample in (*corners(), *direct()) if names is None or sample.name in names]
    known = [entry for entry in entries() if names is None or entry.name in names]
    if options.part:
        index, count = map(int, options.part.split("/"))
        own, known = own[index::count], known[index::count]
    amount = Amount(options.samples, min(options.samples // 2, EVERYTHING.varied))
    folder = options.folder or Path(tempfile.mkdtemp())
    rows = run(own, amount, folder, known, lambda text: print(text, file=sys.stderr, flush=True))
    row.save(rows, folder / VERDICTS)
    print(", ".join(f"{count} {verdict}" for verdict, count in page.tally(rows).items()))
    return _finished(rows, is_whole=names is None and not options.part)


def _finished(rows: Sequence[row.Row], *, is_whole: bool) -> None:
    """Ends with what is wrong and was not expected; else writes the page, if all was run."""
    if wrong := page.unexpected(rows):
        sys.exit("\n".join(f"wrong\t{one.title}\t{' '.join(one.operations)}\t{one.reason}" for one in wrong))
    if is_whole:
        write_atomically(page.PAGE, page.write(rows))
        for name in page.stale(rows):
            print(f"{name} is expected to fail, and does not")


if __name__ == "__main__":
    main()
