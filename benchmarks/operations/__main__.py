"""`python -m benchmarks.operations [--only NAME,…]`, or `make operations`."""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections import Counter
from pathlib import Path

from .campaign import EVERYTHING, Amount, run, samples
from .corners import corners


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operations")
    parser.add_argument("--only", help="names of operations, as torch's database has them")
    parser.add_argument("--samples", type=int, default=EVERYTHING.samples)
    parser.add_argument("--corners", action="store_true", help="only the samples of our own")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else None
    folder = options.folder or Path(tempfile.mkdtemp())
    amount = Amount(options.samples, EVERYTHING.varied)
    given = [] if options.corners else samples(amount, names)
    rows = run(itertools.chain(corners(), given), amount, folder)
    for row in rows:
        if row.verdict != "passed":
            print(f"{row.verdict}\t{row.sample.title}\t{' '.join(sorted(row.operations))}\t{row.reason}")
    print(Counter(row.verdict for row in rows))


if __name__ == "__main__":
    main()
