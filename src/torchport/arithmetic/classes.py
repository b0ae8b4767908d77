"""The classes of arithmetic that a candidate may compute in, from the finest to the coarsest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from torchport.errors import UsageError

Round = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Arithmetic:
    """How sums and products are computed. What is None is computed as eager PyTorch does."""

    name: str
    text: str
    """How a layer computes, to follow "computes": as if products were TF32."""
    operands: Round | None = None
    """What becomes of the two operands of a product before they are multiplied."""
    running_sum: Round | None = None
    """Sums are computed one term after the other, and this is what becomes of the sum after each."""
    transforms: bool = False
    """Whether convolutions are computed by transforms."""
    results: Round | None = None
    """What becomes of the operands and results of all operations."""
    every_value: Round | None = None
    """What becomes of every operand and every result of any operation, each of which is as it is otherwise."""

    wide: Round | None = None
    """What becomes of the operands and results of operations in float64, which are as they are otherwise."""

    @property
    def is_eager(self) -> bool:
        return self.operands is None and self.running_sum is None and self.every_value is None


def _as_it_is(values: Tensor) -> Tensor:
    return values


def _in_tf32(values: Tensor) -> Tensor:
    """Rounded to 10 bits of mantissa, ties to even, with float32's range."""
    if values.dtype != torch.float32:
        return values
    bits = values.contiguous().view(torch.int32)
    rounded = ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)
    return torch.where(torch.isfinite(values), rounded, values)


def _through(dtype: torch.dtype) -> Round:
    return lambda values: values.to(dtype).to(values.dtype)


def _flushed(values: Tensor) -> Tensor:
    return torch.where(values.abs() < torch.finfo(values.dtype).smallest_normal, 0.0, values)


_HALF, _BRAIN = _through(torch.float16), _through(torch.bfloat16)
EAGER = Arithmetic("eager", "as eager PyTorch does")
FLOAT32 = Arithmetic("float32", "sums in float32 in another order than eager PyTorch", running_sum=_as_it_is)
CLASSES = (
    EAGER,
    FLOAT32,
    Arithmetic(
        "transforms",
        "as if convolutions were done by transforms in float32, such as FFT or Winograd's",
        running_sum=_as_it_is,
        transforms=True,
    ),
    Arithmetic("flush_to_zero", "as if tiny numbers were flushed to zero", every_value=_flushed),
    Arithmetic("tf32", "as if products were TF32", operands=_in_tf32),
    Arithmetic("fp16_products", "as if products were float16 with float32 sums", operands=_HALF),
    Arithmetic("bf16_products", "as if products were bfloat16 with float32 sums", operands=_BRAIN),
    Arithmetic("fp16_sums", "as if sums were float16", operands=_HALF, running_sum=_HALF, results=_HALF),
    Arithmetic("bf16_sums", "as if sums were bfloat16", operands=_BRAIN, running_sum=_BRAIN, results=_BRAIN),
)


NARROWED = Arithmetic(
    "narrowed", "as if float64 were float32", running_sum=_as_it_is, wide=_through(torch.float32)
)
"""No candidate's class: it tells how much is lost where numbers of float64 cancel, 2**-29 of what float32 loses."""


def find_arithmetic(name: str) -> Arithmetic:
    """The class of that name; UsageError if there is none."""
    for one in CLASSES:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in CLASSES)
    raise UsageError("TP0801", f"there is no arithmetic {name!r}", fix=f"give one of {names}")
