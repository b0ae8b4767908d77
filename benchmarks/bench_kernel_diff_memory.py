"""What KernelDiff needs of memory and disk for a large model: all values of its graph are never there at once.

    python -m benchmarks.bench_kernel_diff_memory
    python -m benchmarks.bench_kernel_diff_memory --model ssm --backend inductor

It prints the bytes of all values of the graph, which are what holding them once would take, the most that lay in files
at a time, and the peak of the process. It fails if the verdict is not a pass, or one of the two is over its bound.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchport.bench.memory import process_peak
from torchport.bench.models import MODELS, built, find_model
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.debug.kernel_diff.stretches import bytes_of

DISK, PROCESS = 3e9, 4e9
"""The bounds, in bytes."""


class Folder:
    """The most bytes that were in the files of a folder, looked at ten times a second."""

    def __init__(self, path: Path) -> None:
        self.path, self.most = path, 0
        self._is_over = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._is_over.set()
            watcher.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.1):
            self.most = max(self.most, sum(map(_size, self.path.rglob("*"))))


def _size(file: Path) -> int:
    """0 for what is gone by now."""
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="ssm")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    subject = built(find_model(given.model), small=given.small, device=given.device)
    harness = KernelDiffHarness(
        subject.model,
        (subject.args, dict(subject.kwargs)),
        model_name=given.model,
        test_backend=given.backend,
        config=ComparisonConfig(gradients=False),
    )
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        watched = Folder(Path(folder))
        with watched.watched():
            report = harness.compare().report
        tempfile.tempdir = None
    steps = [step for plan in harness._comparison.compiled.plans for step in plan.steps]
    values = sum(bytes_of(value) for step in steps for value in step.values)
    peak = process_peak()
    print(
        f"{given.model} under {given.backend} on {given.device}: {report.status}, {report.compared} values compared"
    )
    print(f"  {len(steps)} operations, {values / 1e9:.2f} GB of values")
    print(f"  at most {watched.most / 1e9:.2f} GB in files (bound {DISK / 1e9:g} GB)")
    print(f"  at most {peak / 1e9:.2f} GB in memory (bound {PROCESS / 1e9:g} GB)")
    print(f"  {time.perf_counter() - begin:.0f} s: {dict(sorted(report.seconds.items()))}")
    for note in (report.stopped, *report.notes, report.first_divergence and report.first_divergence.reason):
        print(f"  {note}" if note else "", end="\n" if note else "")
    return int(report.status != "pass" or watched.most > DISK or peak > PROCESS)


if __name__ == "__main__":
    sys.exit(main())
