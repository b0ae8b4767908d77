"""How much memory recording, saving and porting a large model takes, beside the model itself.

    python benchmarks/bench_memory.py                   # 8 GB of weights, or less on a small machine
    python benchmarks/bench_memory.py --gigabytes 1

A model of equal linear layers is built, recorded, recorded and saved, and ported to candle (without a build), each in a
process of its own. Memory is the peak of that process, Python and torch included. Exits with 1 if one of these takes
more than 1 GB beside the weights.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WIDTH = 4096
LAYER_BYTES = 4 * WIDTH * WIDTH
ALLOWED_BYTES = 1e9
STEPS = ("build", "record", "save", "port")


def take_step(step: str, layers: int, folder: Path) -> None:
    """Builds the model; then, if the step is not only that, ports it, or records it and may save the recording."""
    import torch

    from torchport import port, record

    torch.manual_seed(0)
    values = torch.randn(WIDTH, WIDTH) / WIDTH**0.5
    linear = torch.nn.Linear
    model = torch.nn.Sequential(
        *(torch.nn.utils.skip_init(linear, WIDTH, WIDTH, bias=False) for _ in range(layers))
    )
    with torch.no_grad():
        for layer in model:
            layer.weight.copy_(values)
    del values
    example = torch.randn(1, WIDTH)
    if step == "build":
        with torch.no_grad():
            model(example)
        return
    if step == "port":
        port(model, example, out=folder)
        return
    capture = record(model, example)
    if step == "save":
        files = capture.save(folder)
        assert files["weights"].stat().st_size > layers * LAYER_BYTES


def peak_of(step: str, layers: int, folder: Path) -> tuple[int, float]:
    """The most bytes that the process of a step held at a time, and how many seconds it took."""
    began = time.perf_counter()
    command = [sys.executable, __file__, "--step", step, "--layers", str(layers), "--dir", str(folder)]
    process = subprocess.Popen(command)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the process that was to {step} ended with {process.returncode}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), time.perf_counter() - began


def usual_gigabytes() -> float:
    """8, if the machine has three times as much memory and the disk has room; otherwise a third of the memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(8.0, round(memory / 3e9, 1), shutil.disk_usage(".").free / 2e9)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=usual_gigabytes(), help="the size of the weights")
    parser.add_argument("--dir", type=Path, default=Path("torchport-out"), help="where files are written")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--layers", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        take_step(given.step, given.layers, given.dir)
        return 0
    layers = max(1, round(given.gigabytes * 1e9 / LAYER_BYTES))
    weights = layers * LAYER_BYTES
    print(f"{layers} linear layers, {weights / 1e9:.2f} GB of weights", flush=True)
    given.dir.mkdir(parents=True, exist_ok=True)
    within = True
    for step in STEPS:
        with tempfile.TemporaryDirectory(prefix="bench-memory-", dir=given.dir) as scratch:
            peak, seconds = peak_of(step, layers, Path(scratch))
        within &= step == "build" or peak - weights <= ALLOWED_BYTES
        beside = (peak - weights) / 1e9
        print(
            f"{step:<7} peak {peak / 1e9:6.2f} GB, beside the weights {beside:5.2f} GB, {seconds:5.1f} s",
            flush=True,
        )
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
