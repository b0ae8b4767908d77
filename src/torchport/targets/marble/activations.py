"""Activations by name: functions of one value that a group of neurons may have, besides torch's operations.

    @activation("snake")
    def snake(x: Tensor) -> Tensor:
        return x + torch.sin(x) ** 2

makes `activation:snake` a work of function neurons. A function is given the values of many neurons at once, in any
shape, and must treat each by itself. The options of a group are keyword arguments of the function.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from torchport.capture.graph import dtype_name
from torchport.errors import UsageError

Activation = Callable[..., Tensor]
PREFIX = "activation:"


class Plugin:
    """Activations under their names. A graph finds those of the default plugin and those that users add."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._functions: dict[str, Activation] = {}

    def activation(self, name: str) -> Callable[[Activation], Activation]:
        """Registers a function under a name that must be free."""
        if not name.isidentifier():
            raise UsageError("TP0831", f"{name!r} cannot be the name of an activation", where=self.name)

        def register(function: Activation) -> Activation:
            if name in _known():
                raise UsageError("TP0830", f"there is an activation {name!r} already", where=self.name)
            self._functions[name] = function
            return function

        return register

    def remove(self, name: str) -> None:
        """Forgets an activation, so that its name is free again."""
        if name not in self._functions:
            raise _unknown(name)
        del self._functions[name]

    @property
    def functions(self) -> Mapping[str, Activation]:
        return dict(self._functions)


DEFAULT = Plugin("the default plugin")
_USERS = Plugin("activations of the user")
_PLUGINS = [DEFAULT, _USERS]


def activation(name: str) -> Callable[[Activation], Activation]:
    """Registers a function of a tensor as an activation, under a name that must be free."""
    return _USERS.activation(name)


def remove_activation(name: str) -> None:
    """Forgets an activation that was registered by `activation`."""
    _USERS.remove(name)


def activations() -> tuple[str, ...]:
    """The names of all activations."""
    return tuple(sorted(_known()))


def is_activation(work: str) -> bool:
    """Whether the work of a group is an activation by name."""
    return work.startswith(PREFIX)


def apply(work: str, value: Tensor, options: Mapping[str, Any]) -> Tensor:
    """What an activation makes of values. UsageError if it is not known, or if it changes their shape or dtype."""
    name = work.removeprefix(PREFIX)
    known = _known()
    if name not in known:
        raise _unknown(name)
    if value.is_meta:
        return torch.empty_like(value)
    result: object = known[name](value, **options)
    if not isinstance(result, Tensor):
        raise UsageError("TP0833", f"the activation {name!r} gives a {type(result).__name__} and no tensor")
    if result.shape != value.shape or result.dtype != value.dtype:
        raise UsageError(
            "TP0833",
            f"the activation {name!r} makes {dtype_name(result.dtype)} {list(result.shape)} "
            f"of {dtype_name(value.dtype)} {list(value.shape)}",
        )
    return result


def _known() -> dict[str, Activation]:
    return {name: function for plugin in _PLUGINS for name, function in plugin.functions.items()}


def _unknown(name: str) -> UsageError:
    near = difflib.get_close_matches(name, _known(), n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return UsageError("TP0832", f"there is no activation {name!r}{meant}")


def _identity(value: Tensor) -> Tensor:
    return value.clone()


_COMMON: dict[str, Activation] = {
    "identity": _identity,
    "relu": functional.relu,
    "relu6": functional.relu6,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "selu": functional.selu,
    "celu": functional.celu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "mish": functional.mish,
    "sigmoid": torch.sigmoid,
    "logsigmoid": functional.logsigmoid,
    "tanh": torch.tanh,
    "softplus": functional.softplus,
    "softsign": functional.softsign,
    "tanhshrink": functional.tanhshrink,
    "hardtanh": functional.hardtanh,
    "hardsigmoid": functional.hardsigmoid,
    "hardswish": functional.hardswish,
    "hardshrink": functional.hardshrink,
    "softshrink": functional.softshrink,
    "threshold": functional.threshold,
    "sin": torch.sin,
    "cos": torch.cos,
    "exp": torch.exp,
}
for _name, _function in _COMMON.items():
    DEFAULT.activation(_name)(_function)
