"""How long `torchport_inductor` takes to compile, beside torch.compile's own Inductor.

    python -m benchmarks.bench_compile_time
    python -m benchmarks.bench_compile_time --rounds 5 --only mlp

A training step of each model is compiled anew: forward and backward, with all caches of Inductor off. The ways are
measured in turns, and the medians of the rounds are compared in processor time, that of the C++ compiler included, so
that other work on the machine does not count. It fails if torchport_inductor takes more than 1.05 times what Inductor
takes with artifacts off, or more than 1.3 times with artifacts on.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "TORCHINDUCTOR_COMPILE_THREADS", "1"
)  # The C++ compiler is a child of this process, and counted.

import torch
from torch import Tensor, nn
from torch._inductor import config

from torchport.debug.backends.inductor import InductorBackend

BOUNDS = {"off": 1.05, "on": 1.3}
"""The most that each way may take, in multiples of Inductor's time."""
Way = Callable[[Path], Any]
WAYS: dict[str, Way] = {
    "inductor": lambda folder: "inductor",
    "off": lambda folder: InductorBackend(),
    "on": lambda folder: InductorBackend(artifacts=folder),
}


class Attention(nn.Module):
    """A small decoder: embeddings, blocks of attention and MLP, and a head."""

    def __init__(self, width: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(100, width)
        make = nn.TransformerEncoderLayer
        self.blocks = nn.ModuleList(make(width, 4, 2 * width, 0.0, batch_first=True) for _ in range(layers))
        self.head = nn.Linear(width, 100)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden: Tensor = self.embed(tokens)
        for block in self.blocks:
            hidden = block(hidden)
        out: Tensor = self.head(hidden)
        return out


def mlp() -> tuple[nn.Module, Tensor]:
    layers = [nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)]
    return nn.Sequential(*layers), torch.randn(16, 32)


def cnn() -> tuple[nn.Module, Tensor]:
    def block(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]

    layers = [*block(3, 8), *block(8, 16), nn.Flatten(), nn.Linear(16 * 16, 10)]
    return nn.Sequential(*layers), torch.randn(2, 3, 16, 16)


def transformer() -> tuple[nn.Module, Tensor]:
    return Attention(), torch.randint(0, 100, (2, 12))


def resnet18() -> tuple[nn.Module, Tensor]:
    from torchvision.models import resnet18

    return resnet18(), torch.randn(2, 3, 64, 64)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="models with this in their name")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    subjects = [make for make in (mlp, cnn, transformer, resnet18) if options.only in make.__name__]
    with config.patch(force_disable_caches=True):
        seconds_to_compile(mlp, WAYS["on"])  # What is done once in a process is not measured.
        print("| processor seconds to compile | inductor | artifacts off | artifacts on |\n|---|---|---|---|")
        missed = [name for make in subjects for name in measured(make, options.rounds)]
    if missed:
        sys.exit(f"too slow: {', '.join(missed)}")


def measured(make: Callable[[], tuple[nn.Module, Tensor]], rounds: int) -> list[str]:
    """Prints a line of the table, and gives what takes longer than it may."""
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds):
        ways = list(WAYS)
        for way in ways[number % 3 :] + ways[: number % 3]:
            taken[way].append(seconds_to_compile(make, WAYS[way]))
    medians = {way: statistics.median(values) for way, values in taken.items()}
    ratios = {way: medians[way] / medians["inductor"] for way in BOUNDS}
    cells = " | ".join(
        f"{medians[way]:.2f}, {ratio:.3f} × (≤ {BOUNDS[way]})" for way, ratio in ratios.items()
    )
    print(f"| {make.__name__} | {medians['inductor']:.2f} | {cells} |", flush=True)
    return [f"{make.__name__} with artifacts {way}" for way, ratio in ratios.items() if ratio > BOUNDS[way]]


def seconds_to_compile(make: Callable[[], tuple[nn.Module, Tensor]], way: Way) -> float:
    torch.compiler.reset()
    torch.manual_seed(0)
    model, given = make()
    with tempfile.TemporaryDirectory() as folder:
        compiled = torch.compile(model, backend=way(Path(folder)))
        start = processor_seconds()
        compiled(given).sum().backward()
        return processor_seconds() - start


def processor_seconds() -> float:
    """What this process and its children that have ended have used."""
    spent = os.times()
    return time.process_time() + spent.children_user + spent.children_system


if __name__ == "__main__":
    main()
