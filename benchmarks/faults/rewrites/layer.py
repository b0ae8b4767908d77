"""What a rewritten model is made of: layers that have a switch for each fault, and the faults of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


class Layer(nn.Module):
    """A layer whose code has faults that can be switched on, one at a time."""

    fault = ""

    def has(self, fault: str) -> bool:
        return self.fault == fault


@dataclass(frozen=True)
class Fault:
    """A fault of one layer, and what a report should say of it."""

    kind: str
    layer: str
    """The path of the layer whose code is wrong."""
    operations: frozenset[str]
    """The short names of operations that are rightly named; none if no operation of the reference is wrong."""
    spoil: Callable[[nn.Module], None]
    """Puts the fault into a copy of the reference."""


def switched(kind: str, layer: str, *operations: str) -> Fault:
    """A fault for which the layer has a switch."""

    def spoil(model: nn.Module) -> None:
        module = model.get_submodule(layer)
        assert isinstance(module, Layer)
        module.fault = kind

    return Fault(kind, layer, frozenset(operations), spoil)


@dataclass(frozen=True)
class Subject:
    """A model, its inputs, and the faults that its rewrites may have."""

    name: str
    held_out: bool
    """Whether the hypotheses were written without a look at this model."""
    model: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    faults: tuple[Fault, ...]


def lively(model: nn.Module) -> nn.Module:
    """The model with biases and gains as training leaves them: a fault in a zero shows nothing."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if tensor.ndim == 1 and tensor.is_floating_point():
                tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.1)
                if name.endswith("running_var"):
                    tensor.clamp_(min=0.5)
    return model.eval()
