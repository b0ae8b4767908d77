"""A model as the chain of its layers, for models whose code torch cannot follow.

The layers are watched while the model runs. If each takes what the one before it gave, and the last gives the model's
output, the chain is the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from torchport.errors import CaptureError


def chain_of(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> nn.Module:
    """The model's layers one after the other; CaptureError if they are no chain."""
    calls: list[tuple[str, nn.Module, Any, Any]] = []
    with _watched(model, calls), torch.no_grad():
        output = model(*args, **kwargs)
    value: Any = args[0] if len(args) == 1 and not kwargs else None
    chain: list[tuple[str, nn.Module]] = []
    for name, layer, given, result in calls:
        if not (len(given) == 1 and given[0] is value and isinstance(result, Tensor)):
            raise CaptureError("TP0202", f"the layer {name} does not take just what the layer before it gave")
        chain.append((name, layer))
        value = result
    if not chain or not isinstance(output, Tensor) or value is not output:
        raise CaptureError("TP0202", "what the model gives is not what its last layer gave")
    return Chain(chain).eval()


class Chain(nn.Module):
    """Layers one after the other, under the names that they have in their model."""

    def __init__(self, layers: list[tuple[str, nn.Module]]) -> None:
        super().__init__()
        self.order = [name for name, _ in layers]
        for name, layer in layers:
            *parents, last = name.split(".")
            home: nn.Module = self
            for parent in parents:
                if not hasattr(home, parent):
                    home.add_module(parent, nn.Module())
                home = getattr(home, parent)
            if not hasattr(home, last):
                home.add_module(last, layer)

    def forward(self, x: Tensor) -> Tensor:
        for name in self.order:
            x = self.get_submodule(name)(x)
        return x


@contextmanager
def _watched(model: nn.Module, calls: list[tuple[str, nn.Module, Any, Any]]) -> Iterator[None]:
    """Notes the calls of the model's own layers: modules of torch, and modules without others inside."""

    def note(name: str, layer: nn.Module) -> Any:
        return lambda module, given, result: calls.append((name, layer, given, result))

    with ExitStack() as stack:
        inside: list[str] = []
        for name, layer in model.named_modules():
            is_inside = any(name.startswith(f"{outer}.") for outer in inside)
            if (
                name
                and not is_inside
                and (type(layer).__module__.startswith("torch.nn.") or not list(layer.children()))
            ):
                if isinstance(layer, nn.Sequential | nn.ModuleList | nn.ModuleDict):
                    continue
                inside.append(name)
                stack.callback(layer.register_forward_hook(note(name, layer)).remove)
        yield
