"""What comparing two PyTorch models costs, beside running one of them.

    python -m benchmarks.bench_candidates                    # up to 500 blocks, and 50 M parameters
    python -m benchmarks.bench_candidates --millions 50 201  # gradients of a larger model, too

Time: `compare_models` on models of more and more small blocks, as a multiple of one forward pass in the same process,
and as an exponent of growth; the multiple is bounded for a candidate that is the same bit by bit, and for an honest one
whose bits differ in every layer.
Memory: the peak of a process that runs `compare_gradients`, as a multiple of the weights of one model, beside that of a
process that does one forward and backward pass of each of the two models. Both models count. Python and torch do not:
what a process takes that compares two tiny models is subtracted. Exits with 1 if a multiple or the exponent is out of
bounds.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import torch
from torch import Tensor, nn

from torchport import compare_gradients, compare_models

BLOCKS = (64, 125, 250, 500)
MILLIONS = (12, 50)
WIDTH = 2048
MOST_FORWARD_PASSES = 40
MOST_MODEL_SIZES = 6
MOST_EXPONENT = 1.15
STEPS = ("plain", "compare")
TINY = 8


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm, self.act = nn.LayerNorm(width), nn.GELU()
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(self.act(self.up(self.norm(x))))
        return x + y


class Reordered(nn.Linear):
    """The same sums in another order, so that every value differs by rounding."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flip(-1) @ self.weight.flip(-1).T + self.bias


def reordered(model: nn.Sequential) -> nn.Sequential:
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = Reordered
    return model


def model_of(blocks: int, width: int) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width) for _ in range(blocks))).eval()


def seconds_of(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def forward_passes(blocks: int, change: Callable[[nn.Sequential], nn.Sequential]) -> tuple[float, float]:
    """The seconds that a comparison takes, and those of a forward pass: medians of three, taken in turns."""
    model, candidate = model_of(blocks, 64), change(model_of(blocks, 64))
    x = torch.randn(64, 16, 64)

    @torch.no_grad()
    def forward() -> None:
        model(x)

    def compare() -> None:
        assert compare_models(model, candidate, x).passed

    forward()
    compared, plain = [], []
    for _ in range(3):
        plain += [seconds_of(forward) for _ in range(3)]
        compared.append(seconds_of(compare))
    return median(compared), median(plain)


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of a line through the logarithms."""
    xs, ys = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    middle, height = sum(xs) / len(xs), sum(ys) / len(ys)
    across = sum((x - middle) * (y - height) for x, y in zip(xs, ys, strict=True))
    return across / sum((x - middle) ** 2 for x in xs)


def report_time(sizes: Sequence[int]) -> bool:
    costs, passes = [], 0.0
    for blocks in sizes:
        compared, plain = forward_passes(blocks, lambda model: model)
        costs.append(compared)
        passes = compared / plain
        print(f"{blocks:>4} blocks  forward {plain:7.3f} s, compare_models {compared:7.3f} s", end="")
        print(f" = {passes:5.1f} forward passes", flush=True)
    compared, plain = forward_passes(sizes[-1], reordered)
    by_rounding = compared / plain
    print(f"     a candidate that differs by rounding in every layer: {by_rounding:.1f} forward passes")
    growth = exponent(sizes, costs) if len(sizes) > 1 else 1.0
    print(f"the time of a comparison grows with the number of blocks to the power of {growth:.2f}")
    return max(passes, by_rounding) <= MOST_FORWARD_PASSES and growth <= MOST_EXPONENT


def take_step(step: str, blocks: int) -> None:
    """In a process of its own: a forward and backward pass of each of two models, or the comparison of the two."""
    width = WIDTH if blocks else TINY
    model, candidate = model_of(blocks or 1, width), model_of(blocks or 1, width)
    x = torch.randn(4, width)
    if step == "compare":
        assert compare_gradients(model, candidate, x).passed
        return
    for one in (model, candidate):
        gradients = torch.autograd.grad(one(x).sum(), list(one.parameters()))
        del gradients


def peak_of(step: str, blocks: int) -> tuple[int, float]:
    """The most bytes that the process of a step held at a time, and how many seconds it took."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "benchmarks.bench_candidates", "--step", step, "--blocks", str(blocks)]
    process = subprocess.Popen(command)
    try:
        _, status, usage = os.wait4(process.pid, 0)
    except BaseException:
        process.kill()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the process of step {step} ended with {process.returncode}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), time.perf_counter() - began


def report_memory(millions: Sequence[float]) -> bool:
    sizes = 0.0
    empty, _ = peak_of("compare", 0)
    print(f"Python, torch and torchport {empty / 1e9:.2f} GB")
    for million in millions:
        blocks = max(1, round(million * 1e6 / (2 * WIDTH * WIDTH)))
        weights = 4 * sum(parameter.numel() for parameter in Block(WIDTH).parameters()) * blocks
        print(f"{weights / 4e6:5.0f} M parameters", end="", flush=True)
        for step in STEPS:
            peak, seconds = peak_of(step, blocks)
            sizes = (peak - empty) / weights
            print(
                f"  {step} {peak / 1e9:5.2f} GB = {sizes:4.1f} models, {seconds:5.1f} s", end="", flush=True
            )
        print()
    return sizes <= MOST_MODEL_SIZES


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--millions", type=float, nargs="*", default=MILLIONS, help="parameters, for memory")
    parser.add_argument("--blocks", type=int, nargs="*", default=BLOCKS, help="numbers of blocks, for time")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        take_step(given.step, given.blocks[0])
        return 0
    # Memory first: a process inherits the peak of the one that starts it, which comparisons here would raise.
    within = report_memory(given.millions) if given.millions else True
    within &= report_time(given.blocks) if given.blocks else True
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
