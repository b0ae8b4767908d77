"""Damages files of neuron graphs in thousands of ways, and looks at what reading them does.

    python -m benchmarks.fuzz_snapshots                       # 10,000 cases of each format
    python -m benchmarks.fuzz_snapshots --cases 500 --formats json --seed 7

Every case must give an error with a code, or a graph that is consistent and comes back the same when it is written and
read again. While a file is read, nothing may be imported, compiled, run, opened or sent: Python's audit events are
watched. Memory must not grow by more than 500 MB. Exits with 1 if a case breaks one of these; `--keep FOLDER` leaves
the files that did. The formats are in `benchmarks/fuzzing/formats.py`.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.fuzzing.damages import damaged
from benchmarks.fuzzing.formats import FORMATS, Format
from benchmarks.fuzzing.watch import Watch
from torchport.errors import TorchportError

ALLOWED_BYTES = 500e6


@dataclasses.dataclass
class Tally:
    """What the cases of a format gave."""

    codes: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    graphs: int = 0
    broken: list[tuple[int, str, bytes]] = dataclasses.field(default_factory=list)
    """The number of each case that breaks a promise, why, and the file."""


def fuzzed(format_: Format, cases: int, seed: int, watch: Watch) -> Tally:
    tally = Tally()
    for whole in format_.wholes:
        format_.load(
            format_.placed(whole)
        )  # So that what is imported once is imported before the watch begins.
    for case in range(cases):
        content = damaged(random.Random(f"{format_.name} {seed} {case}"), format_)
        reason = outcome(format_, content, tally, watch)
        if reason is not None:
            tally.broken.append((case, reason, content))
    return tally


def outcome(format_: Format, content: bytes, tally: Tally, watch: Watch) -> str | None:
    """Reads the file and counts what that gives; says which promise is broken, if one is."""
    placed = format_.placed(content)
    try:
        with watch():
            graph = format_.load(placed)
    except TorchportError as error:
        tally.codes[error.code] += 1
    except BaseException as error:
        return f"{type(error).__name__}: {error!s:.200}"
    else:
        tally.graphs += 1
        if (reason := changed_by_a_round(format_, graph)) is not None:
            return reason
    return f"reading the file raised {watch.events}" if watch.events else None


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def changed_by_a_round(format_: Format, graph: Any) -> str | None:
    """What is wrong with the graph after it was written and read again, if something is."""
    try:
        again = format_.load(format_.placed(format_.dump(graph)))
    except Exception as error:
        return f"the graph cannot be written and read again: {type(error).__name__}: {error!s:.200}"
    return None if format_.same(again, graph) else "the graph is another when it is written and read again"


def limit_memory() -> None:
    """Lets this process have little more memory than it has now, so that a fault in a reader harms nobody else."""
    statistics = Path("/proc/self/statm")
    if statistics.exists():
        now = int(statistics.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + int(2 * ALLOWED_BYTES),) * 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=10_000, help="how many files of each format")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="the folder for files that break a promise")
    given = parser.parse_args()
    limit_memory()
    watch = Watch()
    broken = 0
    for name in given.formats:
        format_ = FORMATS[name]()
        before, began = peak_bytes(), time.perf_counter()
        tally = fuzzed(format_, given.cases, given.seed, watch)
        grown, seconds = peak_bytes() - before, time.perf_counter() - began
        codes = ", ".join(f"{code} {count:,}" for code, count in sorted(tally.codes.items()))
        print(f"{name:<18} {given.cases:,} cases, {tally.graphs:,} graphs; {codes}", flush=True)
        print(f"{'':<18} {len(tally.broken)} broken, {grown / 1e6:.0f} MB more, {seconds:.1f} s", flush=True)
        broken += len(tally.broken) + (grown > ALLOWED_BYTES)
        for case, reason, content in tally.broken[:10]:
            print(f"  case {case}: {reason}")
            if given.keep:
                given.keep.mkdir(parents=True, exist_ok=True)
                (given.keep / f"{name}-{given.seed}-{case}").write_bytes(content)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
