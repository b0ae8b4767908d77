"""How fast and how exact the runtime crate's own matrix products are, beside those of the `gemm` crate.

    python benchmarks/bench_gemm.py
    python benchmarks/bench_gemm.py --rounds 5 --only bert

Layers of Bert-base, Llama 3.2 1B, ResNet and others, in float32, with one thread and with two. Speed is the median,
over rounds that measure both in turns, of the time of the `gemm` crate by the time of the own product: above 1, the own
one is faster; in brackets are the quartiles. The kinds `candle` and `depthwise` are convolutions as candle does them,
which unfolds the image for the `gemm` crate tile by tile; the kind `conv` unfolds it in the plainest way.

Accuracy is judged by the rule that judges a port: the distance from the product in float64, as a multiple of the
distance of PyTorch's own float32 product, must be at most 4. Besides the layers, a grid of small products is judged,
where PyTorch has kernels that are more exact than its usual ones.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from itertools import product
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from torchport.files import cache_directory
from torchport.parity.metrics import compare
from torchport.parity.tolerance import NoiseFloor
from torchport.targets.candle.build import find_cargo

ROOT = Path(__file__).resolve().parents[1]
THREADS = (1, 2)
LINEAR = {
    "bert 128 × 768 → 768": (128, 768, 768),
    "bert 128 × 768 → 3072": (128, 768, 3072),
    "bert 128 × 3072 → 768": (128, 3072, 768),
    "llama 1 × 2048 → 2048": (1, 2048, 2048),
    "llama 1 × 2048 → 8192": (1, 2048, 8192),
    "llama 1 × 8192 → 2048": (1, 8192, 2048),
    "llama 16 × 2048 → 8192": (16, 2048, 8192),
    "llama 128 × 2048 → 2048": (128, 2048, 2048),
    "llama 128 × 8192 → 2048": (128, 8192, 2048),
}
"""Rows, inputs and outputs."""
POSITIVE = {
    "vgg 8 × 25088 → 512, after a ReLU": (8, 25088, 512),
    "128 × 8192 → 512, all positive": (128, 8192, 512),
}
"""The hardest sums: long, or such that partial sums only grow."""
ATTENTION = {
    "bert scores 12 × 128 × 64 × 128": ((12, 128, 64), (12, 64, 128)),
    "bert values 12 × 128 × 128 × 64": ((12, 128, 128), (12, 128, 64)),
    "llama scores 32 × 1 × 64 × 512": ((32, 1, 64), (32, 64, 512)),
}
CONVOLUTION = {
    "resnet 64 → 64, 3 × 3, 56 × 56": (64, 64, 3, 56),
    "resnet 128 → 128, 3 × 3, 28 × 28": (128, 128, 3, 28),
    "resnet 256 → 256, 3 × 3, 14 × 14": (256, 256, 3, 14),
    "resnet 512 → 512, 3 × 3, 7 × 7": (512, 512, 3, 7),
    "resnet 64 → 256, 1 × 1, 56 × 56": (64, 256, 1, 56),
}
"""Channels in and out, size of the kernel and of the image."""
DEPTHWISE = {
    "mobilenet 96, 3 × 3, 56 × 56": (96, 3, 56),
    "convnext 384, 7 × 7, 14 × 14": (384, 7, 14),
}
"""Channels, size of the kernel and of the image."""


Operands = dict[str, torch.Tensor]
"""`KIND/NAME/x` and `KIND/NAME/w` for each case."""
Seconds = dict[str, list[tuple[float, float]]]
"""Of the own product and of the `gemm` crate's, in each round of each case."""


def layers() -> Operands:
    """Convolutions come twice: beside one that is unfolded in the plainest way, and beside candle's."""
    made: Operands = {}
    for name, (rows, inner, outer) in LINEAR.items():
        made |= linear(name, torch.randn(rows, inner), outer)
    for name, (rows, inner, outer) in POSITIVE.items():
        made |= linear(name, torch.randn(rows, inner).relu(), outer, positive="positive" in name)
    for name, (left, right) in ATTENTION.items():
        made |= named(f"matmul/{name}", torch.randn(left), torch.randn(right))
    for name, (inner, outer, kernel, size) in CONVOLUTION.items():
        for kind in ("conv", "candle"):
            made |= convolution(f"{kind}/{name}", inner, outer, kernel, size)
    for name, (channels, kernel, size) in DEPTHWISE.items():
        made |= convolution(f"depthwise/{name}", 1, channels, kernel, size, groups=channels)
    return made


def small_products(seed: int) -> Operands:
    """Few rows, few columns and few pixels."""
    torch.manual_seed(seed)
    made: Operands = {}
    for rows, inner, outer in product((1, 2, 3, 4, 8, 32), (64, 256, 768, 2048), (10, 64, 768)):
        made |= linear(f"{rows} × {inner} → {outer}", torch.randn(rows, inner), outer)
    for batch, rows, inner, columns in product((1, 12), (1, 2, 8, 64), (32, 128, 512), (2, 16, 128)):
        left, right = torch.randn(batch, rows, inner), torch.randn(batch, inner, columns)
        made |= named(f"matmul/{batch} × {rows} × {inner} × {columns}", left, right)
    for inner, outer, (kernel, size) in product((64, 256, 960), (64, 240), ((1, 1), (1, 4), (3, 1), (3, 4))):
        name = f"conv/{inner} → {outer}, {kernel} × {kernel}, {size} × {size}"
        made |= convolution(name, inner, outer, kernel, size)
    return made


def linear(name: str, x: torch.Tensor, outer: int, positive: bool = False) -> Operands:
    shape = (outer, x.shape[1])
    weight = torch.rand(shape) if positive else torch.randn(shape)
    return named(f"linear/{name}", x, weight / x.shape[1] ** 0.5)


def convolution(name: str, inner: int, outer: int, kernel: int, size: int, groups: int = 1) -> Operands:
    """On an image that has come through a ReLU."""
    weight = torch.randn(outer, inner, kernel, kernel) / (inner * kernel**2) ** 0.5
    return named(name, torch.randn(1, inner * groups, size, size).relu(), weight)


def named(name: str, x: torch.Tensor, w: torch.Tensor) -> Operands:
    return {f"{name}/x": x, f"{name}/w": w}


def names(operands: Operands) -> list[str]:
    return list(dict.fromkeys(key.rpartition("/")[0] for key in operands))


def by_torch(name: str, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    if name.startswith("linear"):
        return torch.nn.functional.linear(x, w)
    if name.startswith("matmul"):
        return x @ w
    groups = x.shape[1] // w.shape[1]
    return torch.nn.functional.conv2d(x, w, padding=w.shape[-1] // 2, groups=groups)


def floors(name: str, operands: Operands, candidate: torch.Tensor) -> float:
    """How many times as far from float64 as PyTorch's own product a candidate is, by the rule that judges ports."""
    x, w = operands[f"{name}/x"], operands[f"{name}/w"]
    golden = by_torch(name, x, w)
    residual = by_torch(name, x.double(), w.double()) - golden
    rule = NoiseFloor()
    return rule.multiple * rule.judge(compare(golden, candidate, residual=residual)).ratio


def compiled() -> Path:
    environment = {**os.environ, "CARGO_TARGET_DIR": str(cache_directory() / "target")}
    command = [find_cargo(), "build", "--quiet", "--example", "gemm_beside_gemm"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return cache_directory() / "target" / "debug" / "examples" / "gemm_beside_gemm"


def measure(program: Path, operands: Operands, threads: int, rounds: int) -> tuple[Seconds, Operands]:
    """The seconds, and the values as `KIND/NAME/own` and `KIND/NAME/gemm`."""
    with tempfile.TemporaryDirectory() as folder:
        given, computed = Path(folder) / "given.safetensors", Path(folder) / "computed.safetensors"
        save_file(operands, given)
        environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
        command = [str(program), str(given), str(computed), str(rounds)]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout), load_file(computed)


def print_speed(seconds: dict[int, Seconds]) -> None:
    print("\n| speed, gemm crate / own | " + " | ".join(f"{n} thread{'s' * (n > 1)}" for n in seconds) + " |")
    print("|---|" + "---|" * len(seconds))
    ratios: dict[int, list[float]] = {threads: [] for threads in seconds}
    for name in next(iter(seconds.values())):
        cells = []
        for threads, measured in seconds.items():
            pairs = sorted(gemm / own for own, gemm in measured[name])
            low, _, high = statistics.quantiles(pairs, n=4)
            if not name.startswith(("candle", "depthwise")):
                ratios[threads].append(statistics.median(pairs))
            cells.append(f"{statistics.median(pairs):.2f} ({low:.2f} to {high:.2f})")
        print(f"| {name} | " + " | ".join(cells) + " |")
    if all(ratios.values()):
        means = (f"**{statistics.geometric_mean(values):.2f}**" for values in ratios.values())
        print("| geometric mean without candle's | " + " | ".join(means) + " |")


def print_accuracy(operands: Operands, computed: Operands) -> None:
    print("\n| distance from float64 / that of PyTorch | own | gemm crate |\n|---|---|---|")
    for name in names(operands):
        cells = [floors(name, operands, computed[f"{name}/{side}"]) for side in ("own", "gemm")]
        print(f"| {name} | {cells[0]:.2f} | {cells[1]:.2f} |")


def print_small_products(program: Path, seeds: int) -> None:
    found: dict[str, list[tuple[float, str]]] = {"own": [], "gemm": []}
    for seed in range(seeds):
        operands = small_products(seed)
        _, computed = measure(program, operands, 1, 0)
        for side, name in product(found, names(operands)):
            found[side].append((floors(name, operands, computed[f"{name}/{side}"]), name))
    limit = NoiseFloor().multiple
    print("\n| small products | beyond 4 times PyTorch's distance | the furthest |\n|---|---|---|")
    for side, values in found.items():
        beyond = sum(value > limit for value, _ in values)
        print(f"| {side} | {beyond} of {len(values)} | {max(values)[0]:.1f}: {max(values)[1]} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=3, help="how often the small products are made anew")
    parser.add_argument("--only", default="", help="layers with this in their name")
    options = parser.parse_args()
    torch.manual_seed(0)
    program = compiled()
    operands = {key: operand for key, operand in layers().items() if options.only in key}
    seconds: dict[int, Seconds] = {}
    computed: Operands = {}
    for threads in THREADS:
        seconds[threads], computed = measure(program, operands, threads, options.rounds)
    print_speed(seconds)
    print_accuracy(operands, computed)
    print_small_products(program, options.seeds)


if __name__ == "__main__":
    main()
