"""Fused attention on a GPU: its kernels against the definition that KernelDiff takes for the truth, and small models.

`python -m benchmarks.kernel_diff_attention [--device cuda]` prints, for each kernel that the device has, how many
roundings each result and gradient is from the definition, and then KernelDiff's verdict on models that use attention:
which rows were judged without a float64 truth, and which fail. Exits with 1 if any does.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from torchport.capture.torch_internals import TorchDispatchMode
from torchport.debug.kernel_diff.attention_truth import by_definition, is_defined
from torchport.debug.kernel_diff.harness import KernelDiffHarness

FARTHEST = 64
"""Roundings, of the largest number of a result, that a kernel may be from the definition."""
KERNELS = (
    (SDPBackend.EFFICIENT_ATTENTION, torch.float32),
    (SDPBackend.EFFICIENT_ATTENTION, torch.float16),
    (SDPBackend.FLASH_ATTENTION, torch.bfloat16),
    (SDPBackend.FLASH_ATTENTION, torch.float16),
    (SDPBackend.CUDNN_ATTENTION, torch.bfloat16),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    device = parser.parse_args().device
    torch.manual_seed(0)
    is_right = [*_kernels(device), *_models(device)]
    sys.exit(0 if all(is_right) else 1)


class _AgainstDefinition(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within, every kernel for attention that runs is held against its definition."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.roundings: dict[str, list[float | None]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if is_defined(func):
            truths = by_definition(func, args, kwargs or {})
            pairs = zip(found, truths, strict=True)
            self.roundings[str(func)] = [_roundings(*pair) for pair in pairs if pair[1] is not None]
        return found


def _roundings(value: Tensor, truth: Tensor) -> float:
    known = truth.isfinite()
    if value.shape != truth.shape or not torch.equal(value.isfinite(), known):
        return float("inf")
    error = (value.double() - truth)[known].abs().max()
    return float(error / truth[known].abs().max() / torch.finfo(value.dtype).eps * 2)


def _kernels(device: str) -> Iterator[bool]:
    for backend, dtype in KERNELS:
        for kind in ("plain", "causal", "bias", "one head of keys"):
            query, key, value = (torch.randn(2, 40, 4, 32).transpose(1, 2) for _ in range(3))
            if kind == "one head of keys":
                key, value = key[:, :1].expand_as(key), value[:, :1].expand_as(value)
            given = [one.to(device, dtype).requires_grad_() for one in (query, key, value)]
            bias = torch.randn(1, 1, 40, 40, device=device, dtype=dtype).expand(2, 4, 40, 40)
            bias = bias.requires_grad_() if backend == SDPBackend.EFFICIENT_ATTENTION else bias
            options = {"attn_mask": bias} if kind == "bias" else {"is_causal": kind == "causal"}
            watched = _AgainstDefinition()
            try:
                with sdpa_kernel(backend), watched:
                    nn.functional.scaled_dot_product_attention(*given, **options).square().sum().backward()  # type: ignore[arg-type]
            except RuntimeError as error:
                print(f"{backend.name} {dtype} {kind}: not run: {str(error).splitlines()[0][:80]}")
                continue
            is_right = bool(watched.roundings) and all(
                one is not None and one < FARTHEST for found in watched.roundings.values() for one in found
            )
            said = {name: [f"{one:.2g}" for one in found] for name, found in watched.roundings.items()}
            print(f"{'ok' if is_right else 'WRONG'} {backend.name} {dtype} {kind}: {said}", flush=True)
            yield is_right


def _gpt2() -> tuple[nn.Module, Any]:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(vocab_size=100, n_embd=64, n_layer=2, n_head=4, n_positions=32)
    model: Any = GPT2Model
    return model(config), torch.randint(0, 100, (2, 16))


def _bert() -> tuple[nn.Module, Any]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128
    )
    model: Any = BertModel
    return model(config), torch.randint(0, 100, (2, 16))


def _encoder() -> tuple[nn.Module, Any]:
    return nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), torch.randn(2, 10, 64)


def _models(device: str) -> Iterator[bool]:
    makers: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
        "gpt2": _gpt2,
        "bert": _bert,
        "encoder": _encoder,
    }
    for name, make in makers.items():
        for is_training in (False, True):
            model, given = make()
            start = time.monotonic()
            harness = KernelDiffHarness(
                model.train(is_training).to(device), given.to(device), model_name=name
            )
            report = harness.compare().report
            without = [layer.name for layer in report.layers if "no float64 truth" in (layer.rule or "")]
            defined = [layer.name for layer in report.layers if "by its definition" in (layer.rule or "")]
            print(
                f"{report.status} {name} {'training' if is_training else 'eval'}: {report.compared} compared,"
                f" {time.monotonic() - start:.0f} s; by definition: {defined[:6]}; without truth: {without[:6]}"
            )
            for layer in report.layers:
                if not layer.passed:
                    print(f"    {layer.name}: {layer.reason} ({layer.rule})")
            print("    " + "\n    ".join((*report.notes, report.stopped or "")), flush=True)
            yield report.status == "pass"


if __name__ == "__main__":
    main()
