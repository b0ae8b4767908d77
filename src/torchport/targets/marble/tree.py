"""A model as the chain of its layers, for models whose code torch cannot follow.

The layers are watched while the model runs. If each takes what the one before it gave, and the last gives the model's
output, the chain is the model. Code between layers that decides by values is not seen, so the chain must agree with the
model on other inputs, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torchport.errors import CaptureError


def chain_of(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> nn.Module:
    """The model's layers one after the other; CaptureError if they are no chain."""
    calls: list[_Call] = []
    with _watched(model, calls), torch.no_grad():
        output = model(*args, **kwargs)
    value: Any = args[0] if len(args) == 1 and not kwargs else None
    writes = value._version if isinstance(value, Tensor) else 0
    chain: list[tuple[str, nn.Module]] = []
    for call in calls:
        is_next = len(call.given) == 1 and call.given[0] is value and not call.named
        if not is_next or call.writes != writes or not isinstance(call.result, Tensor):
            raise CaptureError(
                "TP0202", f"the layer {call.name} does not take just what the layer before it gave"
            )
        chain.append((call.name, call.layer))
        value, writes = call.result, call.writes_after
    if not chain or not isinstance(output, Tensor) or value is not output or output._version != writes:
        raise CaptureError("TP0202", "what the model gives is not what its last layer gave")
    made = Chain(chain).eval()
    _must_agree_elsewhere(model, made, args[0])
    return made


@dataclass(frozen=True)
class _Call:
    """A layer's call. `writes` counts what was written to its input before it, `writes_after` to its result."""

    name: str
    layer: nn.Module
    given: tuple[Any, ...]
    named: Mapping[str, Any]
    result: Any
    writes: int
    writes_after: int


def _must_agree_elsewhere(model: nn.Module, chain: nn.Module, example: Tensor) -> None:
    """Refuses a chain that gives other outputs than the model on inputs that are not the example."""
    with torch.no_grad():
        for other in _others(example):
            try:
                expected = model(other.clone())
            except Exception as error:
                raise CaptureError(
                    "TP0202", "the model refuses some inputs of this shape, which a chain cannot"
                ) from error
            if not _is_same(chain(other.clone()), expected):
                raise CaptureError("TP0202", "code between the layers does more than hand values on")


def _others(example: Tensor) -> list[Tensor]:
    """Inputs of the form of the example that have other values."""
    chance = torch.Generator().manual_seed(0)
    if example.is_floating_point() or example.is_complex():
        noise = torch.randn(example.shape, generator=chance).to(example)
        return [noise, -example, example * 3 + noise, example * 0, noise * 10 - 5, noise * 10 + 5]
    if not example.numel():
        return []
    if example.dtype == torch.bool:
        tossed = torch.randint(2, example.shape, generator=chance).to(example)
        return [~example, example | True, example & False, tossed, ~tossed]
    return _other_integers(example, chance)


def _other_integers(example: Tensor, chance: torch.Generator) -> list[Tensor]:
    """Integers from 0 to those of the example: they may be indices, and larger ones may point to nothing."""
    low, high = min(int(example.min()), 0), max(int(example.max()), 0)
    if low == high:
        raise CaptureError(
            "TP0202",
            "the example has no integer but 0, and only others can show whether there is code between layers",
            fix="Give example inputs with larger integers.",
        )
    end = min(high, torch.iinfo(torch.int64).max - 1) + 1
    tossed = [torch.randint(low, end, example.shape, generator=chance).to(example) for _ in range(4)]
    ends = [torch.full_like(example, value) for value in (low, high)]
    ordered = [example.flip(tuple(range(example.ndim))), example.roll(1), low + high - example]
    return [*tossed, *ends, *ordered, example // 2]


def _is_same(found: Tensor, expected: object) -> bool:
    """Whether two outputs are equal but for rounding."""
    if not isinstance(expected, Tensor) or (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return False
    if not (found.is_floating_point() or found.is_complex()):
        return torch.equal(found, expected)
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-3, equal_nan=True)


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
def _watched(model: nn.Module, calls: list[_Call]) -> Iterator[None]:
    """Notes the calls of the model's own layers: modules of torch, and modules without others inside."""
    before: list[int] = []

    def enter(module: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        before.append(given[0]._version if given and isinstance(given[0], Tensor) else 0)

    def leave(name: str, layer: nn.Module) -> Any:
        def note(module: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any], result: Any) -> None:
            after = result._version if isinstance(result, Tensor) else 0
            calls.append(_Call(name, layer, given, named, result, before.pop(), after))

        return note

    with ExitStack() as stack:
        inside: list[str] = []
        for name, layer in model.named_modules():
            is_inside = any(name.startswith(f"{outer}.") for outer in inside)
            is_layer = type(layer).__module__.startswith("torch.nn.") or not list(layer.children())
            if not name or is_inside or not is_layer:
                continue
            if isinstance(layer, nn.Sequential | nn.ModuleList | nn.ModuleDict):
                continue
            inside.append(name)
            stack.callback(layer.register_forward_pre_hook(enter, with_kwargs=True).remove)
            stack.callback(layer.register_forward_hook(leave(name, layer), with_kwargs=True).remove)
        yield
