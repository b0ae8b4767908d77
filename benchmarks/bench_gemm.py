"""How fast and how exact the runtime crate's own matrix products are, beside those of the `gemm` crate.

    python benchmarks/bench_gemm.py
    python benchmarks/bench_gemm.py --rounds 5 --only bert

Layers of Bert-base, Llama 3.2 1B and ResNet-18, in float32, with one thread and with two. Speed is the median, over
rounds that measure both in turns, of the time of the `gemm` crate by the time of the own product: above 1, the own one
is faster; in brackets are the quartiles. The kinds `candle` and `depthwise` are convolutions as candle does them, which
unfolds the image for the `gemm` crate tile by tile; the kind `conv` unfolds it in the plainest way. Accuracy is the
distance from the product in float64, by RMS and by maximum, as a multiple of the distance of PyTorch's own float32
product, which is how the noise floor rule measures a port.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from torchport.files import cache_directory
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


def cases(only: str) -> dict[str, torch.Tensor]:
    """The operands of each case. Convolutions are measured beside two others: unfolded here, and candle's."""
    torch.manual_seed(0)
    made: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for name, (rows, inner, outer) in LINEAR.items():
        made[f"linear/{name}"] = torch.randn(rows, inner), torch.randn(outer, inner) / inner**0.5
    for name, (rows, inner, outer) in POSITIVE.items():
        weight = torch.randn(outer, inner) if "ReLU" in name else torch.rand(outer, inner)
        made[f"linear/{name}"] = torch.randn(rows, inner).relu(), weight / inner**0.5
    for name, (left, right) in ATTENTION.items():
        made[f"matmul/{name}"] = torch.randn(left), torch.randn(right)
    for name, (inner, outer, kernel, size) in CONVOLUTION.items():
        image = torch.randn(1, inner, size, size).relu()
        weight = torch.randn(outer, inner, kernel, kernel) / (inner * kernel**2) ** 0.5
        made[f"conv/{name}"] = made[f"candle/{name}"] = image, weight
    for name, (channels, kernel, size) in DEPTHWISE.items():
        weight = torch.randn(channels, 1, kernel, kernel) / kernel
        made[f"depthwise/{name}"] = torch.randn(1, channels, size, size), weight
    return {
        f"{name}/{letter}": operand.clone()
        for name, operands in made.items()
        for letter, operand in zip("xw", operands)
        if only in name
    }


def by_torch(name: str, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    if name.startswith("linear"):
        return torch.nn.functional.linear(x, w)
    if name.startswith("matmul"):
        return x @ w
    groups = x.shape[1] // w.shape[1]
    return torch.nn.functional.conv2d(x, w, padding=w.shape[-1] // 2, groups=groups)


def distances(candidate: torch.Tensor, truth: torch.Tensor) -> tuple[float, float]:
    """RMS and maximum."""
    difference = (candidate.double() - truth).abs()
    return difference.square().mean().sqrt().item(), difference.max().item()


def compiled() -> Path:
    environment = {**os.environ, "CARGO_TARGET_DIR": str(cache_directory() / "target")}
    command = [find_cargo(), "build", "--quiet", "--example", "gemm_beside_gemm"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return cache_directory() / "target" / "debug" / "examples" / "gemm_beside_gemm"


def measure(
    program: Path, operands: dict[str, torch.Tensor], threads: int, rounds: int
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, torch.Tensor]]:
    """Seconds of the own product and of the `gemm` crate in each round of each case, and what both computed."""
    with tempfile.TemporaryDirectory() as folder:
        given, computed = Path(folder) / "given.safetensors", Path(folder) / "computed.safetensors"
        save_file(operands, given)
        environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
        command = [str(program), str(given), str(computed), str(rounds)]
        done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout), load_file(computed)


def print_speed(seconds: dict[int, dict[str, list[tuple[float, float]]]]) -> None:
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


def print_accuracy(operands: dict[str, torch.Tensor], computed: dict[str, torch.Tensor]) -> None:
    print(
        "\n| distance from float64 / that of PyTorch | own, RMS | gemm crate, RMS | own, max | gemm crate, max |"
    )
    print("|---|---|---|---|---|")
    for name in dict.fromkeys(key.rpartition("/")[0] for key in operands):
        x, w = operands[f"{name}/x"], operands[f"{name}/w"]
        truth = by_torch(name, x.double(), w.double())
        floor = distances(by_torch(name, x, w), truth)
        own, gemm = (distances(computed[f"{name}/{side}"], truth) for side in ("own", "gemm"))
        cells = [value / of for of, values in zip(floor, zip(own, gemm)) for value in values]
        print(f"| {name} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases with this in their name")
    options = parser.parse_args()
    program, operands = compiled(), cases(options.only)
    seconds: dict[int, dict[str, list[tuple[float, float]]]] = {}
    computed: dict[str, torch.Tensor] = {}
    for threads in THREADS:
        seconds[threads], computed = measure(program, operands, threads, options.rounds)
    print_speed(seconds)
    print_accuracy(operands, computed)


if __name__ == "__main__":
    main()
