"""Other code for an operation of torch, for as long as a model's forward runs.

A replacement takes the arguments of the operation, and gives None if it cannot stand for it with these arguments: then
the operation itself runs. What a replacement calls is torch's own.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Replacement = Callable[..., Any]
Place = tuple[Any, str]


def _everywhere(name: str) -> list[Place]:
    """An operation that is in `torch`, a method of tensors, and in `torch.nn.functional`."""
    return [(owner, name) for owner in (F, torch, Tensor) if hasattr(owner, name)]


OPERATIONS: dict[str, list[Place]] = {
    name: _everywhere(name)
    for name in (
        "linear",
        "conv1d",
        "conv2d",
        "conv_transpose2d",
        "scaled_dot_product_attention",
        "layer_norm",
        "group_norm",
        "batch_norm",
        "rms_norm",
        "softmax",
        "log_softmax",
        "gelu",
        "silu",
        "softplus",
        "relu",
        "sigmoid",
        "rsqrt",
        "mean",
        "sum",
        "cumsum",
        "adaptive_avg_pool2d",
        "avg_pool2d",
        "embedding",
        "interpolate",
    )
}
OPERATIONS["matmul"] = [*_everywhere("matmul"), *_everywhere("bmm"), (Tensor, "__matmul__")]
OPERATIONS |= {name: [(torch._VF, name)] for name in ("lstm", "gru")}
"""Where a model's code finds each operation."""


@dataclass
class Patch:
    """Replacements by operation, and how many calls they have stood for."""

    replacements: Mapping[str, Replacement]
    calls: int = 0
    _is_inside: bool = False

    @contextmanager
    def active(self) -> Iterator[None]:
        before: list[tuple[Any, str, bool, Any]] = []
        try:
            for operation, replacement in self.replacements.items():
                for owner, name in OPERATIONS[operation]:
                    original = getattr(owner, name)
                    before.append((owner, name, name in vars(owner), original))
                    setattr(owner, name, self._instead_of(original, replacement))
            yield
        finally:
            for owner, name, is_own, original in reversed(before):
                if is_own:
                    setattr(owner, name, original)
                else:
                    delattr(owner, name)

    def _instead_of(self, original: Callable[..., Any], replacement: Replacement) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._is_inside:
                return original(*args, **kwargs)
            self._is_inside = True
            try:
                result = replacement(*args, **kwargs)
                if result is not None:
                    self.calls += 1
                    return result
                return original(*args, **kwargs)
            finally:
                self._is_inside = False

        return call


def set_forward(module: nn.Module, forward: Callable[..., Any]) -> None:
    """Gives one module another forward than its class has."""
    module.forward = forward


def around(
    model: nn.Module, run: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
) -> nn.Module:
    """A copy of the model whose forward is called by `run(forward, args, kwargs)`."""
    twin = copy.deepcopy(model)
    forward = twin.forward

    @functools.wraps(forward)
    def rewritten(*args: Any, **kwargs: Any) -> Any:
        return run(forward, args, kwargs)

    set_forward(twin, rewritten)
    return twin


def patched(model: nn.Module, replacements: Mapping[str, Replacement]) -> tuple[nn.Module, Patch]:
    """A copy of the model that computes some operations by replacements."""
    patch = Patch(replacements)

    def run(forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with patch.active():
            return forward(*args, **kwargs)

    return around(model, run), patch
