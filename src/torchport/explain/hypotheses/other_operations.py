"""Another operation in the place of the right one: one of its family, or another interpolation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from torchport.capture import operations
from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis

_FAMILIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "activation",
        ("relu", "gelu", "silu", "sigmoid", "tanh", "leaky_relu", "elu", "hardswish", "hardsigmoid", "mish",
         "softplus", "relu6", "hardtanh", "selu"),
    ),
    ("pad_mode", ("constant_pad_nd", "reflection_pad1d", "replication_pad1d")),
    ("pad_mode", ("constant_pad_nd", "reflection_pad2d", "replication_pad2d")),
    ("operation", ("add", "sub", "mul", "div", "maximum", "minimum")),
    ("operation", ("mean", "sum", "amax", "amin")),
    ("operation", ("max_pool2d", "avg_pool2d")),
    ("comparison", ("lt", "le", "gt", "ge", "eq", "ne")),
    ("rounding_mode", ("floor", "ceil", "round", "trunc")),
    ("causal", ("tril", "triu")),
    ("rotary", ("sin", "cos")),
)  # fmt: skip
"""The kind of hypothesis, and operations of one signature that are taken for each other."""
_INTERPOLATIONS: dict[str, tuple[bool | None, ...]] = {
    "nearest": (None,),
    "bilinear": (False, True),
    "bicubic": (False, True),
    "linear": (False, True),
    "trilinear": (False, True),
    "area": (None,),
    "nearest-exact": (None,),
}
"""The mode of an interpolation, and the values that its `align_corners` can have."""
_SLOPES = (1e-6, 1.0)


def another_operation(operation: BoundOperation) -> Iterator[Hypothesis]:
    name = operation.short_name
    for kind, family in _FAMILIES:
        if name in family:
            for other in family:
                if other != name:
                    text = f"{other} where the model has {name}"
                    yield Hypothesis(kind, text, partial(_computed_by, operation, other))
    if name == "relu":
        text = "leaky_relu with a slope of {value} where the model has relu"
        leaky = partial(torch.nn.functional.leaky_relu, operation["self"])
        yield Hypothesis("activation", text, leaky, _SLOPES)


def _computed_by(operation: BoundOperation, other: str) -> Any:
    """The result of another operation, in the same form if it has that, of those arguments that it knows."""
    forms = operations.overloads(f"aten.{other}")
    same_form = f"aten.{other}.{operation.node.op.split('.')[2]}"
    chosen = same_form if same_form in forms else forms[0]
    known = {argument.name for argument in operations.arguments(chosen)}
    return operations.overload(chosen)(
        **{name: value for name, value in operation.arguments.items() if name in known}
    )


def another_interpolation(operation: BoundOperation) -> Iterator[Hypothesis]:
    name = operation.short_name
    if not name.startswith(("upsample_", "_upsample_")):
        return
    for mode, choices in _INTERPOLATIONS.items():
        for align_corners in choices:
            text = f"the interpolation is {mode}" + (" with align_corners" if align_corners else "")
            kind = "align_corners" if mode in name else "interpolation"
            yield Hypothesis(kind, text, partial(_interpolated, operation, mode, align_corners))


def _interpolated(operation: BoundOperation, mode: str, align_corners: bool | None) -> torch.Tensor:
    operand: torch.Tensor = operation["self" if operation.get("self") is not None else "input"]
    size = list(operation.result.shape[2:])
    return torch.nn.functional.interpolate(operand, size=size, mode=mode, align_corners=align_corners)
