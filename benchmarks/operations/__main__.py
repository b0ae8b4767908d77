"""`python -m benchmarks.operations [--only NAME,…]`, or `make operations`, which writes docs/operations.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from torchport.files import write_atomically

from . import page
from .campaign import EVERYTHING, Amount, run
from .corners import corners
from .database import entries


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operations")
    parser.add_argument(
        "--only", help="names of operations, as torch's database has them; no page is written"
    )
    parser.add_argument(
        "--part", help="I/N: every N-th entry of the database from the I-th; no page is written"
    )
    parser.add_argument("--samples", type=int, default=EVERYTHING.samples, help="of each operation and dtype")
    parser.add_argument("--folder", type=Path, help="where the program is kept")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else None
    own = [sample for sample in corners() if names is None or sample.name in names]
    known = [entry for entry in entries() if names is None or entry.name in names]
    if options.part:
        index, count = map(int, options.part.split("/"))
        own, known = own[index::count], known[index::count]
    amount = Amount(options.samples, min(options.samples // 2, EVERYTHING.varied))
    folder = options.folder or Path(tempfile.mkdtemp())
    rows = run(own, amount, folder, known, lambda text: print(text, file=sys.stderr, flush=True))
    wrong = page.unexpected(rows)
    for row in wrong:
        print(f"wrong\t{row.sample.title}\t{' '.join(sorted(row.operations))}\t{row.reason}")
    print(", ".join(f"{count} {verdict}" for verdict, count in page.tally(rows).items()))
    if names is None and not options.part:
        write_atomically(page.PAGE, page.write(rows))
        for name in page.stale(rows):
            print(f"{name} is expected to fail, and does not")
    if wrong:
        sys.exit(f"{len(wrong)} rows differ from torch")


if __name__ == "__main__":
    main()
