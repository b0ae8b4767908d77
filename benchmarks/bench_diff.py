"""How long `torchport diff` takes on two large files, and how much memory, beside reading both once.

    python -m benchmarks.bench_diff                     # 10 GB each: a few minutes, and 20 GB of disk
    python -m benchmarks.bench_diff --gigabytes 1 --dtype bfloat16

Writes two safetensors files, which differ slightly at every element, and compares them; then the same with two files
that are the same. Measures in turns with `cat A B > /dev/null`, and drops the page cache before each measurement,
where it may. Memory is the peak of the command's process (VmHWM), all that it has mapped included. Exits with 1 where
diff takes more than twice the time of cat, or 500 MB.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch

from torchport.files import cache_directory

TIMES, MEGABYTES = 2.0, 500.0
SHAPE = (8192, 4096)
"""Of each tensor: 128 MiB of float32."""
CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}
DIFF = """
import re, sys
from pathlib import Path
from torchport.cli import main
code = main(["diff", *sys.argv[1:]])
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1], file=sys.stderr)
sys.exit(code)
"""


def write(path: Path, size: int, values: torch.Tensor) -> None:
    """A safetensors file of about `size` bytes: the same tensor again and again, under different names."""
    length = values.numel() * values.itemsize
    described = {"dtype": CODES[str(values.dtype).removeprefix("torch.")], "shape": list(values.shape)}
    places = [(start, start + length) for start in range(0, max(size, length), length)]
    header = {f"layer.{i}.weight": described | {"data_offsets": place} for i, place in enumerate(places)}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _ in places:
            file.write(values.view(torch.uint8).numpy().data)
        file.flush()
        os.fsync(file.fileno())


def drop_caches() -> bool:
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


class Taken(NamedTuple):
    seconds: float
    cpu: float
    """Seconds of processor time, which other work on the machine does not lengthen."""
    said: str


def timed(command: list[str], allowed: int = 0) -> Taken:
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != allowed:
        raise SystemExit(f"{command[0]} ended with {process.returncode}: {said}")
    return Taken(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, said)


def measure(label: str, first: Path, second: Path, code: int, runs: int, cold: bool) -> bool:
    """Whether diff keeps its limits on two files; the best of several runs of each counts."""
    cats, diffs = [], []
    for _ in range(runs):
        for taken, command, allowed in (
            (cats, ["cat", str(first), str(second)], 0),
            (diffs, [sys.executable, "-c", DIFF, str(first), str(second), "--json"], code),
        ):
            if cold:
                drop_caches()
            taken.append(timed(command, allowed))
    cat, diff = min(cats), min(diffs)
    megabytes = max(int(taken.said.split()[-1]) * 1.024e-3 for taken in diffs)
    times = diff.seconds / cat.seconds
    print(
        f"{label:<10} {'cold' if cold else 'warm'}  diff {diff.seconds:.1f} s ({diff.cpu:.1f} s CPU), "
        f"cat {cat.seconds:.1f} s ({cat.cpu:.1f} s CPU): {times:.2f} times (limit {TIMES:g}), "
        f"{megabytes:.0f} MB (limit {MEGABYTES:.0f})",
        flush=True,
    )
    return times <= TIMES and megabytes <= MEGABYTES


def stopped(*_: object) -> None:
    raise SystemExit("stopped")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=10.0, help="the size of each file")
    parser.add_argument("--dtype", choices=sorted(CODES), default="float32")
    parser.add_argument("--runs", type=int, default=1, help="how often each is measured; the fastest counts")
    parser.add_argument("--warm", action="store_true", help="leave the page cache as it is")
    parser.add_argument("--dir", type=Path, help="where the files are written, and deleted again")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, stopped)
    place = given.dir or cache_directory()
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-diff-", dir=place) as scratch:
        load = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before"
        print(f"2 x {given.gigabytes:g} GB of {given.dtype}; {load}", flush=True)
        size, dtype = int(given.gigabytes * 1e9), getattr(torch, given.dtype)
        first, second = Path(scratch, "a.safetensors"), Path(scratch, "b.safetensors")
        golden = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0)).to(dtype)
        # Off by more than the tolerance where the value is not small, so that mismatches are counted, too.
        candidate = (golden.double() * (1 + max(1e-5, 4 * torch.finfo(dtype).eps))).to(dtype)
        write(first, size, golden)
        write(second, size, candidate)
        cold = not given.warm and drop_caches()
        differ = measure("different", first, second, 1, given.runs, cold)
        write(second, size, golden)
        return 0 if measure("identical", first, second, 0, given.runs, cold) and differ else 1


if __name__ == "__main__":
    sys.exit(main())
