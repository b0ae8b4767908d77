"""How users add to the converter: layers by their class, functions and methods by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from torchport.errors import UsageError
from torchport.targets.marble.composer import Composer, Unsupported, Value
from torchport.targets.marble.recipes.registry import RECIPES

LayerConverter = Callable[..., Value | list[Value]]
"""Takes a composer, the module, and the values that arrive, and gives what the layer gives."""
LAYERS: dict[type[nn.Module], LayerConverter] = {}
C = TypeVar("C", bound=Callable[..., Any])


def register_layer(layer: type[nn.Module], *, replace: bool = False) -> Callable[[C], C]:
    """Registers a converter for a layer: `@register_layer(MyLayer)` before `def convert(composer, module, *values)`."""
    if not (isinstance(layer, type) and issubclass(layer, nn.Module)):
        raise UsageError(
            "TP0801", f"{layer!r} is no class of layers", fix="Give a subclass of torch.nn.Module."
        )
    if layer in LAYERS and not replace:
        raise UsageError(
            "TP0801", f"there is a converter for {layer.__name__} already", fix="Use replace=True."
        )

    def register(converter: C) -> C:
        LAYERS[layer] = converter
        return converter

    return register


def register_function(function: Callable[..., Any] | str, *, replace: bool = False) -> Callable[[C], C]:
    """Registers a recipe for a function of torch, such as `F.gelu`, or for an operation by its full name.

    The recipe takes a composer and the operation's arguments by the names that ATen gives them.
    """
    return _registering(_operations(function), replace)


def register_method(method: str, *, replace: bool = False) -> Callable[[C], C]:
    """Registers a recipe for a method of tensors, such as `view`."""
    if not hasattr(torch.Tensor, method):
        raise UsageError("TP0801", f"tensors have no method {method!r}")
    return _registering(_operations(method), replace)


def _registering(names: list[str], replace: bool) -> Callable[[C], C]:
    taken = [name for name in names if name in RECIPES]
    if taken and not replace:
        raise UsageError(
            "TP0801", f"there is a recipe for {', '.join(taken)} already", fix="Use replace=True."
        )

    def register(made: C) -> C:
        RECIPES.update(dict.fromkeys(names, made))
        return made

    return register


def _operations(function: Callable[..., Any] | str) -> list[str]:
    """The full names of the operations that a function is."""
    name = function if isinstance(function, str) else getattr(function, "__name__", "")
    if name.count(".") == 2:
        namespace, name, overload = name.split(".")
        packet = getattr(getattr(torch.ops, namespace), name, None)
        overloads = [overload] if packet is not None and overload in packet.overloads() else []
    else:
        namespace, packet = "aten", getattr(torch.ops.aten, name, None)
        overloads = (
            [] if packet is None else [one for one in packet.overloads() if "out" not in one.split("_")]
        )
    if not overloads:
        raise UsageError(
            "TP0801",
            f"{function!r} is not one operation of torch",
            fix="Register the operations that it calls, by full names such as aten.gelu.default, or its layer.",
        )
    return [f"{namespace}.{name}.{overload}" for overload in overloads]


def unsupported_layer(layer: type[nn.Module]) -> LayerConverter:
    """Registers a stub, which says that the layer is not supported, and gives it back to be replaced."""

    def stub(composer: Composer, module: nn.Module, *values: Value) -> Value:
        raise Unsupported(f"{type(module).__name__} is not supported for conversion")

    return register_layer(layer, replace=True)(stub)


def converter_of(module: nn.Module) -> LayerConverter | None:
    """The converter for a layer's own class; classes that derive from it have their own or none."""
    return LAYERS.get(type(module))
