"""Which operations torch knows, and which of them no graph of ATen operations holds because they are broken down."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from torchport.debug.internals.needs import Need

NEEDS = (
    Need("names of operations", "torch._C", "_dispatch_get_all_op_names", "denying operations by pattern"),
    Need(
        "dispatch keys", "torch._C", "DispatchKey.CompositeImplicitAutograd", "denying composite operations"
    ),
)


def is_composite(operation: Any) -> bool:
    """Whether an overload is broken down into others before a graph of ATen operations is made, as `conv2d` is."""
    return bool(operation.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))


@lru_cache(maxsize=4)
def _names(count: int) -> tuple[str, ...]:
    return tuple(_dotted(name) for name in torch._C._dispatch_get_all_op_names())


def operation_names() -> tuple[str, ...]:
    """The full names of all overloads that torch has at present: `aten.add.Tensor`, `aten.relu.default`, …"""
    return _names(len(torch._C._dispatch_get_all_op_names()))


def _dotted(name: str) -> str:
    space, _, rest = name.partition("::")
    return f"{space}.{rest}" if "." in rest else f"{space}.{rest}.default"
