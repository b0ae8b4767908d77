"""`python -m benchmarks.operations [--only NAME,…]`, or `make operations`, which writes docs/operations.md."""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

from torchport.files import write_atomically

from . import page
from .campaign import EVERYTHING, Amount, run, samples
from .corners import corners


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operations")
    parser.add_argument(
        "--only", help="names of operations, as torch's database has them; no page is written"
    )
    parser.add_argument(
        "--corners", action="store_true", help="only the samples of our own; no page is written"
    )
    parser.add_argument("--samples", type=int, default=EVERYTHING.samples, help="of each operation and dtype")
    parser.add_argument("--folder", type=Path, help="where the program is kept")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else None
    amount = Amount(options.samples, min(options.samples // 2, EVERYTHING.varied))
    given = iter(()) if options.corners else samples(amount, names)
    own = [sample for sample in corners() if names is None or sample.name in names]
    folder = options.folder or Path(tempfile.mkdtemp())
    rows = run(itertools.chain(own, given), amount, folder)
    wrong, stale = page.unexpected(rows), page.stale(rows)
    for row in wrong:
        print(f"wrong\t{row.sample.title}\t{' '.join(sorted(row.operations))}\t{row.reason}")
    counts = page.tally(rows)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    if names is None and not options.corners:
        write_atomically(page.PAGE, page.write(rows))
        for name in stale:
            print(f"{name} is expected to fail, and does not")
    if wrong:
        sys.exit(f"{len(wrong)} rows differ from torch")


if __name__ == "__main__":
    main()
