"""Layers merged into one: norms and scales folded into weights, adapters merged, projections joined.

The parameters stay where they were, so that gradients are compared by name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .models import LoraLinear
from .patching import set_forward
from .rewriting import Candidate, Example, rewriting

TRIPLES = (("q", "k", "v"), ("query", "key", "value"), ("q_proj", "k_proj", "v_proj"))


class Folded(nn.Module):
    """A convolution whose weight and bias have taken up the batch norm after it."""

    def __init__(self, convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
        super().__init__()
        self.convolution, self.norm = convolution, norm

    def forward(self, x: Tensor) -> Tensor:
        norm, convolution = self.norm, self.convolution
        assert norm.running_var is not None and norm.running_mean is not None
        scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        shift = norm.bias - norm.running_mean * scale
        if convolution.bias is not None:
            shift = shift + convolution.bias * scale
        y: Tensor = convolution._conv_forward(x, convolution.weight * scale[:, None, None, None], shift)
        return y


@rewriting("folded: batch norm into the convolution")
def batch_norm_folded(example: Example) -> Candidate | None:
    """The two are left out by name: what they fold into is compared where it ends, in their caller."""
    twin = copy.deepcopy(example.model)
    left_out: dict[str, None] = {}
    for first, second in _in_a_row(twin, example):
        convolution, norm = twin.get_submodule(first), twin.get_submodule(second)
        assert isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)
        _put(twin, first, Folded(convolution, norm))
        _put(twin, second, nn.Identity())
        left_out |= {first: None, second: None}
    return Candidate(twin, lambda: len(left_out), left_out=left_out) if left_out else None


def _in_a_row(model: nn.Module, example: Example) -> list[tuple[str, str]]:
    """The convolutions whose result is what a batch norm is given, by path, each called once."""
    givers: dict[int, str] = {}
    kept: list[Tensor] = []
    found: list[tuple[str, str]] = []
    handles = []

    def noted(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
            if isinstance(module, nn.BatchNorm2d) and id(args[0]) in givers:
                found.append((givers[id(args[0])], path))
            elif isinstance(module, nn.Conv2d):
                kept.append(result)
                givers[id(result)] = path

        return hook

    for path, module in model.named_modules():
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d):
            handles.append(module.register_forward_hook(noted(path)))
    with torch.no_grad():
        example.run(model)
    for handle in handles:
        handle.remove()
    return found


def _put(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)


def _forwards_replaced(
    example: Example, replaced: Callable[[nn.Module], Callable[..., Any] | None]
) -> Candidate | None:
    """The model with another forward for each of the modules that have one."""
    twin = copy.deepcopy(example.model)
    calls = 0
    for module in twin.modules():
        forward = replaced(module)
        if forward is not None:
            set_forward(module, forward)
            calls += 1
    return Candidate(twin, lambda: calls) if calls else None


@rewriting("folded: LoRA merged")
def lora_merged(example: Example) -> Candidate | None:
    def merged(module: nn.Module) -> Callable[..., Any] | None:
        if not isinstance(module, LoraLinear):
            return None
        base, down, up, scale = module.base, module.down, module.up, module.scale
        return lambda x: F.linear(x, base.weight + scale * (up.weight @ down.weight), base.bias)

    return _forwards_replaced(example, merged)


@rewriting("folded: weight norm")
def weight_norm_folded(example: Example) -> Candidate | None:
    """The weight is divided by its norm once, in another order than torch does it."""

    def folded(module: nn.Module) -> Callable[..., Any] | None:
        if not hasattr(module, "parametrizations") or not isinstance(module, nn.Conv1d | nn.Linear):
            return None
        originals = module.get_submodule("parametrizations.weight")
        length, direction = originals.get_parameter("original0"), originals.get_parameter("original1")

        def forward(x: Tensor) -> Tensor:
            norms = direction.flatten(1).square().sum(1).sqrt().view(length.shape)
            weight = direction / norms * length
            if isinstance(module, nn.Linear):
                return F.linear(x, weight, module.bias)
            y: Tensor = module._conv_forward(x, weight, module.bias)
            return y

        return forward

    return _forwards_replaced(example, folded)


@rewriting("folded: query, key and value in one product")
def projections_joined(example: Example) -> Candidate | None:
    twin = copy.deepcopy(example.model)
    calls = 0
    for parent in twin.modules():
        for names in TRIPLES:
            parts = [getattr(parent, name, None) for name in names]
            if all(isinstance(part, nn.Linear) for part in parts):
                _join(parts)  # type: ignore[arg-type]
                calls += 1
    return Candidate(twin, lambda: calls) if calls else None


def _join(parts: list[nn.Linear]) -> None:
    """Each part computes the product with all three weights, and gives its share."""
    sizes = [part.out_features for part in parts]
    for index, part in enumerate(parts):

        def forward(x: Tensor, _index: int = index) -> Tensor:
            weights: list[Tensor] = [each.weight for each in parts]
            biases: list[Tensor] = [
                part.weight.new_zeros(len(part.weight)) if part.bias is None else part.bias for part in parts
            ]
            y = F.linear(x, torch.cat(weights), torch.cat(biases))
            return torch.split(y, sizes, -1)[_index]

        set_forward(part, forward)


@rewriting("folded: gain of the layer norm into the next linear layer")
def gain_folded(example: Example) -> Candidate | None:
    """In a sequence of the two: the norm gives rows without gain, and the weight takes it up; both are left out."""
    twin = copy.deepcopy(example.model)
    left_out: dict[str, None] = {}
    for path, parent in twin.named_modules():
        if not isinstance(parent, nn.Sequential):
            continue
        for (first, norm), (second, linear) in zip(
            parent.named_children(), list(parent.named_children())[1:]
        ):
            if isinstance(norm, nn.LayerNorm) and isinstance(linear, nn.Linear):
                _fold_gain(norm, linear)
                left_out |= {f"{path}.{name}".strip("."): None for name in (first, second)}
    return Candidate(twin, lambda: len(left_out), left_out=left_out) if left_out else None


def _fold_gain(norm: nn.LayerNorm, linear: nn.Linear) -> None:
    def rows(x: Tensor) -> Tensor:
        return F.layer_norm(x, norm.normalized_shape, None, None, norm.eps)

    def product(x: Tensor) -> Tensor:
        return F.linear(x, linear.weight * norm.weight, F.linear(norm.bias, linear.weight, linear.bias))

    set_forward(norm, rows)
    set_forward(linear, product)
