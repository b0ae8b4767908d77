"""The tensors in nested inputs and outputs: containers, dataclasses, classes known to pytree, and plain objects."""

from __future__ import annotations

import copy
import dataclasses
import enum
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torchport.capture.torch_internals import is_of_transform
from torchport.errors import CaptureError

Path = tuple[Any, ...]
"""Where in a nested value a leaf is: `("hidden", 0)`."""
Change = Callable[[Path, Any], Any]
_PLAIN = (type(None), bool, int, str, bytes, type, enum.Enum, torch.dtype, torch.device)
_DEEPEST = 16
"""How many containers may lie around a tensor; an object that leads farther is made for something else."""
_NO_CONTAINERS = (
    *_PLAIN,
    float,
    complex,
    set,
    frozenset,
    torch.nn.Module,
    torch.Generator,
    torch.storage.UntypedStorage,
)
_CODE = (
    types.ModuleType,
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.GeneratorType,
)


_USUAL: frozenset[type] = frozenset({dict, list, tuple})


def copied(tree: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same structure in containers of its own, with each tensor replaced by what `change` makes of it."""
    return _rebuilt(tree, lambda _, leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf, (), {})


def put_into(tree: Any, tensors: Mapping[Path, torch.Tensor]) -> Any:
    """The structure with these tensors at their places.

    What can be written to is written to, so that a container which is handed from call to call stays the same one.
    """
    return _written(tree, lambda path, leaf: tensors.get(path, leaf), (), set())


def leaves(tree: Any) -> list[tuple[Path, Any]]:
    """Every leaf with its path, tensors and others; what contains itself is listed once."""
    found: list[tuple[Path, Any]] = []
    _note_leaves(tree, (), (), found)
    return found


def _note_leaves(tree: Any, path: Path, above: tuple[int, ...], found: list[tuple[Path, Any]]) -> None:
    parts = _parts(tree, path)
    if parts is None:
        found.append((path, tree))
    elif id(tree) not in above:
        for key, part in parts.items():
            _note_leaves(part, (*path, key), (*above, id(tree)), found)


def _parts(tree: Any, path: Path) -> dict[Any, Any] | None:
    """What a container holds, by key, index or name; None for a leaf."""
    if isinstance(tree, torch.Tensor) or len(path) > _DEEPEST:
        return None
    if type(tree) in _USUAL:  # Nearly all are, and the checks below take long.
        return dict(tree) if type(tree) is dict else dict(enumerate(tree))
    if isinstance(tree, Mapping):
        return dict(tree.items())
    if isinstance(tree, list | tuple):
        return dict(enumerate(tree))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return {
            field.name: getattr(tree, field.name)
            for field in dataclasses.fields(tree)
            if hasattr(tree, field.name)
        }
    if type(tree) in pytree.SUPPORTED_NODES:
        return dict(enumerate(_children(tree)))
    return _attributes(tree)


def _children(tree: Any) -> list[Any]:
    children: Iterable[Any] = pytree.SUPPORTED_NODES[type(tree)].flatten_fn(tree)[0]
    return list(children)


def _attributes(tree: Any) -> dict[str, Any] | None:
    """The attributes of a plain object, one that is made to hold values and is not code or a value itself."""
    if isinstance(tree, (*_NO_CONTAINERS, *_CODE)) or type(tree).__module__ == "builtins":
        return None
    slots = [kind.__dict__.get("__slots__", ()) for kind in type(tree).__mro__]
    names = [name for own in slots for name in ((own,) if isinstance(own, str) else own)]
    known = {name: getattr(tree, name) for name in names if name != "__dict__" and hasattr(tree, name)}
    return {**known, **getattr(tree, "__dict__", {})} or None


def _written(tree: Any, change: Change, path: Path, above: set[int]) -> Any:
    parts = _parts(tree, path)
    if parts is None:
        return change(path, tree)
    if id(tree) in above:
        return tree
    inside = above | {id(tree)}
    new = {key: _written(part, change, (*path, key), inside) for key, part in parts.items()}
    changed = {key: part for key, part in new.items() if part is not parts[key]}
    if not changed:
        return tree
    if not _is_made_at_once(tree):
        return _set(tree, changed)
    made = _made_of(tree, new)
    if isinstance(tree, tuple | types.MappingProxyType) or not hasattr(tree, "__dict__"):
        return made
    vars(tree).update(vars(made))
    return tree


def _rebuilt(tree: Any, change: Change, path: Path, known: dict[int, Any]) -> Any:
    parts = _parts(tree, path)
    if parts is None:
        return change(path, tree)
    if id(tree) in known:
        return known[id(tree)]
    if _is_made_at_once(tree):
        return _made_of(
            tree, {key: _rebuilt(part, change, (*path, key), known) for key, part in parts.items()}
        )
    known[id(tree)] = made = copy.copy(tree)
    return _set(made, {key: _rebuilt(part, change, (*path, key), known) for key, part in parts.items()})


def _is_made_at_once(tree: Any) -> bool:
    """Whether a container is made of all its parts, and cannot be written to."""
    if isinstance(tree, tuple | types.MappingProxyType):
        return True
    is_usual = isinstance(tree, Mapping | list) or dataclasses.is_dataclass(tree)
    return not is_usual and type(tree) in pytree.SUPPORTED_NODES


def _made_of(tree: Any, parts: Mapping[Any, Any]) -> Any:
    if isinstance(tree, types.MappingProxyType):
        return types.MappingProxyType(dict(parts))
    values = list(parts.values())
    if isinstance(tree, tuple):
        return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)
    node = pytree.SUPPORTED_NODES[type(tree)]
    return node.unflatten_fn(values, node.flatten_fn(tree)[1])


def _set(tree: Any, parts: Mapping[Any, Any]) -> Any:
    for key, part in parts.items():
        if isinstance(tree, Mapping | list):
            if tree[key] is not part:
                tree[key] = part  # type: ignore[index]
        else:
            object.__setattr__(tree, key, part)
    return tree


def tensors(tree: Any) -> list[tuple[Path, torch.Tensor]]:
    return [(path, leaf) for path, leaf in leaves(tree) if isinstance(leaf, torch.Tensor)]


def must_be_plain(found: Iterable[tuple[Path, torch.Tensor]], who: str, where: str | None) -> None:
    """Raises an error with the kind of a tensor that is not made of as many values in memory as it has elements."""
    for path, tensor in found:
        kind = _special_kind(tensor)
        if kind is not None:
            message = f"{who} a {kind} tensor at {described_path(path)}, which cannot be compared"
            fix = "compare wrappers that take and return dense tensors"
            raise CaptureError("TP0205", message, where=where, fix=fix)


def _special_kind(tensor: torch.Tensor) -> str | None:
    if is_of_transform(tensor):
        return "torch.func"
    if tensor.is_nested:
        return "nested"
    if tensor.is_quantized:
        return "quantized"
    if tensor.layout != torch.strided:
        return str(tensor.layout).removeprefix("torch.").removeprefix("_")
    return "meta" if tensor.is_meta else None


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
