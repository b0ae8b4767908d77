"""What torch's own settings let the kernels of a device do: NVIDIA's may compute products of float32 in TF32."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter

import torch

from torchport.arithmetic.classes import Arithmetic, find_arithmetic

aten = torch.ops.aten
_CONVOLUTIONS = "backends.cudnn.conv.fp32_precision"
_PRODUCTS = "backends.cuda.matmul.fp32_precision"
_SETTINGS: dict[object, str] = {
    **dict.fromkeys((aten.convolution.default, aten.convolution_backward.default), _CONVOLUTIONS),
    **dict.fromkeys(
        (
            aten.mm.default,
            aten.bmm.default,
            aten.addmm.default,
            aten.baddbmm.default,
            aten.mv.default,
            aten.dot.default,
        ),
        _PRODUCTS,
    ),
}
"""By operation, the setting that decides whether its products may be TF32."""


def permitted(arithmetic: Arithmetic, operation: object, device: torch.device) -> Arithmetic:
    """The class, with products in TF32 if torch's settings let a device compute them so in this operation."""
    if device.type != "cuda" or arithmetic.operands is not None or not permitting([operation]):
        return arithmetic
    return replace(arithmetic, operands=find_arithmetic("tf32").operands)


def permitting(operations: Iterable[object]) -> list[str]:
    """The settings by which NVIDIA's kernels may just now compute products of float32 in TF32 in some operations."""
    asked = {_SETTINGS.get(operation) for operation in operations}
    found = (name for name in (_CONVOLUTIONS, _PRODUCTS) if name in asked)
    return [f"torch.{name}" for name in found if attrgetter(name)(torch) == "tf32"]
