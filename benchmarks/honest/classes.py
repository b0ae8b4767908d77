"""How often the class of arithmetic that a report names is the one in which the candidate computes.

    python -m benchmarks.honest.classes

Bert, ResNet-18 and Llama, small and with random weights, whose linear layers, convolutions and products compute in an
emulated class. Counted are the layers that are out of eager PyTorch's bounds, since the error of others tells nothing.
Exits with 1 if fewer than 95 % are named rightly.
"""

from __future__ import annotations

import sys

import torch

from benchmarks.honest.arithmetic import example_of, in_class
from torchport.testing import compare_models

MODELS = ("bert", "resnet18", "llama")
CLASSES = ("tf32", "bf16_products", "bf16_sums", "fp16_sums", "float32")
LEAST = 0.95


def named(model: str, arithmetic: str) -> list[str | None]:
    """The class that is named for each layer whose error can tell."""
    torch.manual_seed(0)
    example = example_of(model)
    candidate = in_class(example.model, arithmetic)
    report = compare_models(example.model, candidate, example.args, example.kwargs, explain=False)
    return [layer.arithmetic for layer in report.layers if layer.arithmetic is not None or not layer.passed]


def main() -> int:
    right = told = 0
    print("| class | " + " | ".join(MODELS) + " |\n|---|" + "---|" * len(MODELS))
    for arithmetic in CLASSES:
        counts = []
        for model in MODELS:
            names = named(model, arithmetic)
            counts.append(f"{names.count(arithmetic)} of {len(names)}")
            right, told = right + names.count(arithmetic), told + len(names)
        print(f"| {arithmetic} | " + " | ".join(counts) + " |", flush=True)
    print(f"\n{right} of {told} layers: {right / told:.1%}")
    return 0 if right >= LEAST * told else 1


if __name__ == "__main__":
    sys.exit(main())
