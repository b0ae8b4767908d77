"""False alarms of KernelDiff: models of torchvision, transformers and the zoo, compiled by a backend that is right.

`python -m benchmarks.kernel_diff_zoo [NAME …] [--backend inductor] [--device cuda] [--no-gradients] [--dtype bfloat16]
[--size 64] [--layers 1] [--allow-rnn]`; a size is that of images, and layers are those of models of transformers.
Exits with 1 unless every model passes: a verdict of `fail` is a false alarm, and one of `error` is no proof.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from benchmarks.zoo import SMALL, ZOO, Factory, Subject, ids
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.harness import KernelDiffHarness
from torchport.errors import TorchportError
from torchport.parity.result import Layer


def t5() -> Subject:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=99, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    config.use_cache = False
    model: Any = T5ForConditionalGeneration
    return model(config).eval(), (ids(),), {"decoder_input_ids": ids(length=7)}


def mamba() -> Subject:
    from transformers import MambaConfig, MambaModel

    config = MambaConfig(vocab_size=99, hidden_size=32, state_size=4, num_hidden_layers=2, use_cache=False)
    model: Any = MambaModel
    return model(config).eval(), (ids(),)


def vit_small() -> Subject:
    from torchvision.models import VisionTransformer

    model: Any = VisionTransformer
    made = model(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=64, mlp_dim=128)
    nn.init.normal_(made.heads[0].weight)
    return made.eval(), (torch.randn(2, 3, 32, 32),)


class StackedLstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(16, 32, num_layers=2, batch_first=True), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(torch.tanh(self.lstm(x)[0]))
        return found


def lstm_and_more() -> Subject:
    return StackedLstm(), (torch.randn(2, 9, 16),)


MODELS: dict[str, Factory] = {
    **ZOO,
    "t5": t5,
    "mamba": mamba,
    "vit_small": vit_small,
    "lstm_and_more": lstm_and_more,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    SMALL["num_hidden_layers"] = options.layers or SMALL["num_hidden_layers"]
    torch._dynamo.config.allow_rnn = options.allow_rnn
    results = []
    for name in options.names or sorted(MODELS):
        row = {"model": name, **_row(name, options)}
        results.append(row)
        print(json.dumps(row), flush=True)
    passed = sum(row["status"] == "pass" for row in results)
    print(f"{passed} of {len(results)} pass")
    return 0 if passed == len(results) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="all, if none is named")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--no-gradients", action="store_true")
    parser.add_argument("--size", type=int)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--allow-rnn", action="store_true")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in MODELS]:
        parser.error(f"there is no model {', '.join(unknown)}")
    return options


def _row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    model, args, *rest = MODELS[name]()
    if options.size is not None:
        args = tuple(torch.randn(*one.shape[:2], options.size, options.size) for one in args)
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
        "excused": [layer.name for layer in report.layers if layer.passed and _is_excused(layer)],
        "without_truth": sum("no float64 truth" in (layer.rule or "") for layer in report.layers),
        "nearest": _nearest(report.layers),
        "seconds": {"all": round(time.monotonic() - start, 1), **report.seconds},
    }


def _nearest(layers: Sequence[Layer]) -> list[str]:
    """The layers that are nearest to their limit, with the share of it that they take up."""
    ratios = {layer.name: layer.own.ratio or 0.0 for layer in layers if layer.own is not None}
    return [f"{name} {ratios[name]:.2f}" for name in sorted(ratios, key=lambda name: -ratios[name])[:3]]


def _is_excused(layer: Layer) -> bool:
    return layer.own is not None and layer.own.passed is False


def _placed(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], options: argparse.Namespace
) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    dtype = getattr(torch, options.dtype)

    def placed(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(options.device, dtype if tensor.is_floating_point() else tensor.dtype)

    args, kwargs = pytree.tree_map_only(torch.Tensor, placed, (tuple(args), kwargs))
    return model.to(options.device, dtype), args, kwargs


if __name__ == "__main__":
    sys.exit(main())
