"""The tensors of a model that are no weights, such as tables of angles or a scale: their values at other sizes.

They are not in the model's state, so that who changes a size and keeps the weights keeps them, too. In: a recipe, and
numbers. Out: the values of buffers that are not persistent and of tensors that are plain attributes; all else of the
model is without values, so that this costs little however large the model is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from torchport.capture.fields import with_numbers
from torchport.capture.rebuild import Recipe
from torchport.capture.state import quiet

_MOST = 2**26
"""How many elements are computed at most."""

Tensors = dict[str, torch.Tensor]


def names_beside(model: torch.nn.Module) -> set[str]:
    """The names of a model's tensors that are not in its state."""
    return set(_beside(model))


def values_beside(recipe: Recipe, numbers: Mapping[str, int | float]) -> Tensors | None:
    """The tensors of the model with these numbers that are not in its state; None if they cannot be had."""
    try:
        with quiet():
            model, _ = recipe.made(numbers)
            if sum(tensor.numel() for tensor in _beside(model).values()) > _MOST:
                return None
            torch.manual_seed(0)
            with _parameters_on_meta():
                model, _ = recipe.make(with_numbers(recipe.fields, numbers))
            return _beside(model)
    except Exception:  # whatever the model's own code raises
        return None


def differing(before: Tensors | None, after: Tensors | None) -> list[str]:
    """The tensors that have other values in the same shape, which no weights of another shape would show."""
    if before is None or after is None:
        return ["tensors that are too large to be compared"]
    return [
        name
        for name, tensor in before.items()
        if (other := after.get(name)) is not None
        and other.shape == tensor.shape
        and not _is_same(tensor, other)
    ]


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return not one.is_meta and not other.is_meta and bool(torch.equal(one.nan_to_num(), other.nan_to_num()))


def _beside(model: torch.nn.Module) -> Tensors:
    found: Tensors = {}
    for path, module in model.named_modules():
        before = f"{path}." if path else ""
        own: dict[str, Any] = {name: module._buffers[name] for name in module._non_persistent_buffers_set}
        for name, value in {**vars(module), **own}.items():
            if isinstance(value, torch.Tensor):
                found[before + name] = value
    return found


@contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """Within, the parameters of modules lose their values as soon as they are made."""
    register = torch.nn.Module.register_parameter

    def registered(module: torch.nn.Module, name: str, param: torch.nn.Parameter | None) -> None:
        register(module, name, param)
        if param is not None:
            module._parameters[name] = torch.nn.Parameter(param.to("meta"), param.requires_grad)

    torch.nn.Module.register_parameter = registered  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register  # type: ignore[method-assign]
