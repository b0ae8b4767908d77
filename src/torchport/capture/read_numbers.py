"""Numbers that a model reads from tensors by `.item()`, where they are computed with as tensors without axes.

In: a node of torch's graph that takes such a number. Out: the operation that takes a tensor in its place, and gives the
same. What is read may decide no size, and nothing but an operation on tensors may compute with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torchport.capture import operations
from torchport.capture.torch_internals import OpOverload

READS = frozenset({"aten.item.default", "aten._local_scalar_dense.default"})
FULL = "aten.full.default"
EXPAND = "aten.expand.default"
_SWAPPED, _SUB = "aten.rsub.Scalar", "aten.sub.Tensor"
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def of_tensor(node: torch.fx.Node, numbers: Mapping[torch.fx.Node, torch.dtype]) -> str | None:
    """The operation that takes tensors where this one takes numbers; None if there is none that gives the same.

    A number of Python does not widen what it meets, and is not rounded before: a tensor stands for it if the dtype that
    is computed in has all of its values.
    """
    if not isinstance(node.target, OpOverload):
        return None
    name = str(node.target)
    given = operations.given(name, node.args, node.kwargs)
    read = {key: numbers[value] for key, value in given.items() if _is_in(value, numbers)}
    nested = [value for value in given.values() if isinstance(value, list | tuple)]
    if any(item in numbers for value in nested for item in value if isinstance(item, torch.fx.Node)):
        return None
    dtype = _computed_in(name, node, given)
    if not read or dtype is None or not all(_holds(dtype, one) for one in read.values()):
        return None
    if name == FULL:
        return EXPAND if list(read.values()) == [dtype] else None
    types = {one.name: one.type for one in operations.arguments(name)}
    if all(types[key] == "Tensor" for key in read):
        return name
    _, base, form = name.split(".")
    if name == _SWAPPED and "alpha" not in given:
        return _SUB
    return f"aten.{base}.Tensor" if base in _COMPARISONS and form == "Scalar" else None


def in_order(node: torch.fx.Node) -> tuple[Any, ...]:
    """The positional arguments in the order in which the operation takes them that `of_tensor` found."""
    return tuple(reversed(node.args)) if str(node.target) in (_SWAPPED, FULL) else node.args


def _is_in(value: object, numbers: Mapping[torch.fx.Node, torch.dtype]) -> bool:
    return isinstance(value, torch.fx.Node) and value in numbers


def _computed_in(name: str, node: torch.fx.Node, given: Mapping[str, Any]) -> torch.dtype | None:
    """The dtype that an operation computes in: that of its result, and of a comparison that of the tensor."""
    tensor = node
    if name.split(".")[1] in _COMPARISONS:
        tensor = given["self"]
    value = tensor.meta.get("val") if isinstance(tensor, torch.fx.Node) else None
    return value.dtype if isinstance(value, torch.Tensor) else None


def _holds(dtype: torch.dtype, number: torch.dtype) -> bool:
    """Whether a tensor of a dtype stands for a number that was read from a tensor of another."""
    if number.is_complex or dtype.is_complex:
        return False
    if dtype.is_floating_point and not number.is_floating_point:
        return number == torch.bool or dtype in (torch.float32, torch.float64)
    return torch.promote_types(dtype, number) == dtype
