"""What neuron graphs cost: conversion, memory, files, and a run by groups beside PyTorch.

    python -m benchmarks.bench_marble

Conversion and memory are beside the numbers of a converter that makes an object of each synapse. Memory is what the
process takes more for the conversion, measured in a process of its own after a first small conversion. Time is the
median of runs in turns with eager PyTorch, with 2 threads. Exits with 1 if something is out of bounds.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median

import torch
from torch import Tensor, nn

from torchport import marble

MOST_SECONDS, MOST_MEGABYTES, MOST_BYTES_A_SYNAPSE, MOST_RATIO = 1.0, 100, 12, 1.2
PER_OBJECT = {"Linear(512, 512)": (8.4, 325), "Linear(2048, 2048)": (153.0, 6000)}
"""Seconds and megabytes of one object for each synapse."""


def minilm() -> tuple[nn.Module, Tensor]:
    """MiniLM with its trained weights, on 32 tokens."""
    from examples import minilm

    return minilm.load(), torch.randint(0, 30000, (1, 32))


def resnet18() -> tuple[nn.Module, Tensor]:
    import torchvision

    return torchvision.models.resnet18().eval(), torch.randn(1, 3, 224, 224)


def mlp() -> tuple[nn.Module, Tensor]:
    layers = (nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(*layers).eval(), torch.randn(32, 784)


def linear(width: int) -> tuple[nn.Module, Tensor]:
    return nn.Linear(width, width).eval(), torch.randn(1, width)


CONVERTED: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "Linear(512, 512)": lambda: linear(512),
    "Linear(2048, 2048)": lambda: linear(2048),
    "Conv2d(64, 64, 3) on 56x56": lambda: (
        nn.Conv2d(64, 64, 3, padding=1).eval(),
        torch.randn(1, 64, 56, 56),
    ),
    "MiniLM": minilm,
}
RUN = {"MLP": mlp, "resnet18": resnet18, "MiniLM": minilm}


def resident() -> float:
    """Megabytes that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def convert_one(name: str) -> None:
    """Converts one model in this process, and prints what it took."""
    torch.manual_seed(0)
    marble.convert_model(*linear(4))
    model, inputs = CONVERTED[name]()
    before, began = resident(), time.perf_counter()
    core = marble.convert_model(model, inputs)
    seconds, megabytes = time.perf_counter() - began, resident() - before
    in_memory = sum(array.nbytes for array in core.version.arrays.values())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "graph.marble"
        marble.save(core, file)
        on_disk = file.stat().st_size
    weights = sum(array.numel() for array in core.state_dict().values())
    print(seconds, megabytes, len(core.neurons), len(core.synapses), weights, in_memory, on_disk)


def conversions() -> list[str]:
    """Prints a row for each model, and gives what is out of bounds."""
    wrong = []
    columns = f"{'seconds':>8} {'MB more':>8} {'neurons':>12} {'synapses':>14} {'weights':>12}"
    print(f"{'model':28} {columns} {'B/synapse':>10} {'on disk':>8}   an object for each synapse")
    for name in CONVERTED:
        command = [sys.executable, "-m", "benchmarks.bench_marble", "--convert", name]
        line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
        seconds, megabytes, neurons, synapses, weights, in_memory, on_disk = map(float, line.split())
        each, each_on_disk = in_memory / synapses, on_disk / synapses
        known = PER_OBJECT.get(name)
        beside = f"{known[0]:g} s, {known[1]:,} MB" if known else ""
        columns = f"{seconds:8.2f} {megabytes:8.1f} {neurons:12,.0f} {synapses:14,.0f} {weights:12,.0f}"
        print(f"{name:28} {columns} {each:10.2f} {each_on_disk:8.2f}   {beside}")
        if name == "Linear(2048, 2048)" and (seconds > MOST_SECONDS or megabytes > MOST_MEGABYTES):
            wrong.append(f"{name} took {seconds:.2f} s and {megabytes:.0f} MB")
        if max(each, each_on_disk) > MOST_BYTES_A_SYNAPSE:
            wrong.append(f"{name} takes {max(each, each_on_disk):.1f} bytes a synapse")
        if name.startswith("Conv2d") and weights != 36_928:
            wrong.append(f"{name} has {weights:.0f} weights")
    return wrong


def ratio_of(model: nn.Module, inputs: Tensor, seconds: float) -> tuple[float, float]:
    """Seconds of eager PyTorch, and how many times that a run by groups takes."""
    core = marble.convert_model(model, inputs)
    eager: list[float] = []
    groups: list[float] = []
    with torch.no_grad():
        torch.testing.assert_close(core.run(inputs)[0], _first(model(inputs)))
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            for took, work in ((eager, lambda: model(inputs)), (groups, lambda: core.run(inputs))):
                start = time.perf_counter()
                work()
                took.append(time.perf_counter() - start)
    return median(eager), median(groups) / median(eager)


def _first(output: object) -> Tensor:
    return output if isinstance(output, Tensor) else next(iter(output.values()))  # type: ignore[attr-defined]


def runs(seconds: float) -> list[str]:
    torch.set_num_threads(2)
    ratios = []
    print(f"\n{'model':28} {'eager':>10}  by groups")
    for name, made in RUN.items():
        torch.manual_seed(0)
        eager, ratio = ratio_of(*made(), seconds)
        ratios.append(ratio)
        print(f"{name:28} {eager * 1e3:7.2f} ms  {ratio:.2f} times")
    mean = geometric_mean(ratios)
    print(f"{'geometric mean':28} {'':10}  {mean:.2f} times")
    return (
        [f"by groups takes {mean:.2f} times eager PyTorch"]
        if not mean <= MOST_RATIO or math.isnan(mean)
        else []
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--convert", choices=CONVERTED, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=10, help="for each model that is run")
    given = parser.parse_args()
    if given.convert:
        convert_one(given.convert)
        return
    wrong = conversions() + runs(given.seconds)
    for line in wrong:
        print(f"out of bounds: {line}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
