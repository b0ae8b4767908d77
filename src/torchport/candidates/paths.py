"""What the modules, parameters and buffers of a model are called, compiled or not."""

from __future__ import annotations

from torch import Tensor, nn

from torchport.candidates.functions import FunctionModule


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    """By name, tied ones by each of their names; what torch.compile puts around a module is left out."""
    named = model.named_parameters(remove_duplicate=False)
    return {uncompiled(name): parameter for name, parameter in named}


def buffers_of(model: nn.Module) -> dict[str, Tensor]:
    named = model.named_buffers(remove_duplicate=False)
    return {uncompiled(name): buffer for name, buffer in named}


def own_parameters(model: nn.Module) -> dict[str, Tensor]:
    """By name, those of a module, or those of the modules that a function works with."""
    owners = model.owners if isinstance(model, FunctionModule) else ()
    known = parameters_of(model)
    for owner in owners:
        known = {**parameters_of(owner), **known}
    return known


def modules_of(model: nn.Module) -> dict[str, nn.Module]:
    """By path, shared ones by each of their paths; what torch.compile put around a module stands for the module."""
    found: dict[str, nn.Module] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        found.setdefault(uncompiled(path), module)
    return found


def uncompiled(name: str) -> str:
    """The name without the parts that torch.compile puts into it."""
    if "_orig_mod" not in name:
        return name
    return ".".join(part for part in name.split(".") if part != "_orig_mod")
