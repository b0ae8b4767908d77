"""False alarms of KernelDiff: models of torchvision, transformers and the zoo, compiled by a backend that is right.

`python -m benchmarks.kernel_diff_zoo [NAME …] [--backend inductor] [--device cuda] [--no-gradients] [--dtype bfloat16]`
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from benchmarks.zoo import ZOO
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.errors import TorchportError


def main() -> None:
    options = _options()
    results = []
    for name in options.names or sorted(ZOO):
        row = {"model": name, **_row(name, options)}
        results.append(row)
        print(json.dumps(row), flush=True)
    passed = sum(row["status"] == "pass" for row in results)
    print(f"{passed} of {len(results)} pass")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--no-gradients", action="store_true")
    return parser.parse_args()


def _row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    model, args, *rest = ZOO[name]()
    model, args, kwargs = _placed(model, args, rest[0] if rest else {}, options)
    config = ComparisonConfig(gradients=not options.no_gradients)
    start = time.monotonic()
    try:
        harness = KernelDiffHarness(
            model, (args, kwargs), model_name=name, test_backend=options.backend, config=config
        )
        report = harness.compare().report
    except TorchportError as error:
        return {"status": "error", "said": str(error)[:300]}
    culprit = report.first_divergence
    return {
        "status": report.status,
        "layers": len(report.layers),
        "compared": report.compared,
        "culprit": None if culprit is None else f"{culprit.layer}: {culprit.type}: {culprit.reason}",
        "stopped": report.stopped,
        "seconds": round(time.monotonic() - start, 1),
    }


def _placed(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], options: argparse.Namespace
) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    dtype = getattr(torch, options.dtype)

    def placed(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(options.device, dtype if tensor.is_floating_point() else tensor.dtype)

    args, kwargs = pytree.tree_map_only(torch.Tensor, placed, (tuple(args), kwargs))
    return model.to(options.device, dtype), args, kwargs


if __name__ == "__main__":
    main()
