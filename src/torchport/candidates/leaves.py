"""The tensors in nested inputs and outputs: tuples, lists, dicts, dataclasses, and classes known to pytree."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torchport.errors import CaptureError

Path = tuple[Any, ...]
"""Where in a nested value a leaf is: `("hidden", 0)`."""
Change = Callable[[Path, Any], Any]
_PLAIN = (type(None), bool, int, str)


def replaced(tree: Any, change: Change, path: Path = ()) -> Any:
    """The same structure, with each leaf replaced by what `change` makes of it."""
    if isinstance(tree, torch.Tensor):
        return change(path, tree)
    if isinstance(tree, Mapping):
        return _mapping(tree, {key: replaced(value, change, (*path, key)) for key, value in tree.items()})
    if isinstance(tree, list | tuple):
        values = [replaced(value, change, (*path, index)) for index, value in enumerate(tree)]
        return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return _dataclass(tree, change, path)
    if type(tree) in pytree.SUPPORTED_NODES:
        leaves, structure = pytree.tree_flatten(tree)
        changed = [replaced(leaf, change, (*path, index)) for index, leaf in enumerate(leaves)]
        return pytree.tree_unflatten(changed, structure)
    return change(path, tree)


def _mapping(tree: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    if type(tree) is dict:
        return values
    copied = copy.copy(tree)
    for key, value in values.items():
        if value is not tree[key]:
            copied[key] = value  # type: ignore[index]
    return copied


def _dataclass(tree: Any, change: Change, path: Path) -> Any:
    copied = copy.copy(tree)
    for field in dataclasses.fields(tree):
        value = getattr(tree, field.name)
        new = replaced(value, change, (*path, field.name))
        if new is not value:
            object.__setattr__(copied, field.name, new)
    return copied


def leaves(tree: Any) -> list[tuple[Path, Any]]:
    """Every leaf with its path, tensors and others."""
    found: list[tuple[Path, Any]] = []

    def note(path: Path, leaf: Any) -> Any:
        found.append((path, leaf))
        return leaf

    replaced(tree, note)
    return found


def tensors(tree: Any) -> list[tuple[Path, torch.Tensor]]:
    return [(path, leaf) for path, leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]


def each_tensor(tree: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return replaced(tree, lambda _, leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def structure(tree: Any) -> tuple[tuple[Path, Any], ...]:
    """What two results must have in common: where their tensors are, and every plain value."""
    found: list[tuple[Path, Any]] = []
    for path, leaf in leaves(tree):
        if isinstance(leaf, torch.Tensor):
            found.append((path, torch.Tensor))
        elif isinstance(leaf, _PLAIN):
            found.append((path, leaf))
        else:
            kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
            raise CaptureError(
                "TP0205",
                f"the output {described_path(path)} is of class {kind}, which cannot be compared",
                fix="return it as a tensor, or compare wrappers that leave it out",
            )
    return tuple(found)


def is_same_structure(one: tuple[tuple[Path, Any], ...], other: tuple[tuple[Path, Any], ...]) -> bool:
    """Whether two results have the same at the same places; the order of keys in dicts does not matter."""
    return dict(one) == dict(other)


def described(structure: tuple[tuple[Path, Any], ...]) -> str:
    """Such as `a tensor`, or `tensor at [0], 3 at ['count']`."""
    if len(structure) == 1 and structure[0][0] == ():
        return "a tensor" if structure[0][1] is torch.Tensor else repr(structure[0][1])
    parts = [
        f"{'tensor' if leaf is torch.Tensor else repr(leaf)} at {described_path(path)}"
        for path, leaf in structure
    ]
    return ", ".join(parts) or "nothing"


def described_path(path: Path) -> str:
    return "".join(f"[{part!r}]" for part in path) or "itself"
