"""What the attributes of a module hold: lists, dicts, sets and plain objects that a forward pass may write to."""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

import torch

_DEEPEST = 4
_CONTAINERS = (list, dict, set, deque, OrderedDict, defaultdict)
_PLAIN = (str, int, float, types.NoneType)
_CODE = (type, types.FunctionType, types.MethodType, types.ModuleType, types.BuiltinFunctionType)
_TORCHS_OWN = frozenset(vars(torch.nn.Module()))
"""The attributes that every module has, such as its tables and hooks."""


class HeldValues:
    """The contents of what modules hold, to be put back, and the tensors therein."""

    def __init__(self) -> None:
        self.tensors: list[torch.Tensor] = []
        self._contents: list[tuple[Any, Any]] = []
        self._known: set[int] = set()

    def look_into(self, module: torch.nn.Module) -> None:
        for _, value in _own_attributes(module):
            self.note(value)

    def note(self, value: Any, depth: int = 0) -> None:
        if isinstance(value, _PLAIN) or id(value) in self._known or depth > _DEEPEST:
            return
        self._known.add(id(value))
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
        elif isinstance(value, tuple):
            for part in value:
                self.note(part, depth + 1)
        elif type(value) in _CONTAINERS:
            self._keep(value, value.copy(), depth)
        elif _is_a_plain_object(value):
            self._keep(vars(value), dict(vars(value)), depth)

    def _keep(self, container: Any, content: Any, depth: int) -> None:
        self._contents.append((container, content))
        for part in content.values() if isinstance(content, dict) else content:
            self.note(part, depth + 1)

    def put_back(self) -> None:
        for container, content in self._contents:
            if _parts(container) == _parts(content):
                continue
            container.clear()
            if isinstance(container, list | deque):
                container.extend(content)
            else:
                container.update(content)


def tensors_held_by(module: torch.nn.Module) -> dict[str, list[torch.Tensor]]:
    """By attribute, the tensors that a module holds otherwise than as parameters and buffers."""
    found: dict[str, list[torch.Tensor]] = {}
    for name, value in _own_attributes(module):
        held = HeldValues()
        held.note(value)
        found[name] = held.tensors
    return {name: tensors for name, tensors in found.items() if tensors}


def _own_attributes(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """The attributes that not every module has, with their values, but for plain ones, which hold nothing."""
    return [
        (name, value)
        for name, value in vars(module).items()
        if name not in _TORCHS_OWN and not isinstance(value, _PLAIN)
    ]


def _parts(container: Any) -> Any:
    """Which objects are in a container, and where."""
    if isinstance(container, dict):
        return [(key, id(value)) for key, value in container.items()]
    return container if isinstance(container, set) else [id(value) for value in container]


def _is_a_plain_object(value: Any) -> bool:
    """Whether it is made to hold values, and is neither code nor a part of torch."""
    is_of_torch = type(value).__module__.partition(".")[0] == "torch"
    return hasattr(value, "__dict__") and not isinstance(value, (*_CODE, torch.nn.Module)) and not is_of_torch
