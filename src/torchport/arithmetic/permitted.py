"""What torch's own settings let the kernels of a device do: NVIDIA's may compute products of float32 in TF32."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

import torch

from torchport.arithmetic.classes import Arithmetic, find_arithmetic
from torchport.capture.torch_internals import OpOverload

aten = torch.ops.aten
_CONVOLUTIONS = "backends.cudnn.conv.fp32_precision"
_PRODUCTS = "backends.cuda.matmul.fp32_precision"
_SETTINGS: dict[OpOverload, str] = {
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


def permitted(arithmetic: Arithmetic, operation: OpOverload, device: torch.device) -> Arithmetic:
    """The class, with products in TF32 if torch's settings let a device compute them so in this operation."""
    setting = _SETTINGS.get(operation)
    if device.type != "cuda" or arithmetic.operands is not None or f"torch.{setting}" not in permitting():
        return arithmetic
    return replace(arithmetic, operands=find_arithmetic("tf32").operands)


def permitting() -> list[str]:
    """The settings that let NVIDIA's kernels compute products of float32 in TF32 just now."""
    return [
        f"torch.{setting}" for setting in (_CONVOLUTIONS, _PRODUCTS) if attrgetter(setting)(torch) == "tf32"
    ]
