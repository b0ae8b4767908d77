"""From the bits of a tensor, as a file or torch has them, to numbers that numpy computes with, without loss.

What numpy has no dtype for travels as unsigned integers.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

_AS_INTEGERS = {
    "bfloat16": "uint16",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
    "complex32": "uint32",
}
_EIGHT_BITS = {
    "float8_e4m3fn": (4, 7, "fn"),
    "float8_e4m3fnuz": (4, 8, "fnuz"),
    "float8_e5m2": (5, 15, "ieee"),
    "float8_e5m2fnuz": (5, 16, "fnuz"),
}
"""Bits of the exponent, its bias, and which bits are no number."""


def bits_dtype(dtype: str) -> np.dtype:
    """The numpy dtype of an array that holds the bits of a tensor."""
    return np.dtype(_AS_INTEGERS.get(dtype, dtype))


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """The elements of a tensor, flat, as `numbers` takes them; not copied where they lie in memory in a row."""
    import torch

    flat = tensor.detach().cpu().resolve_conj().resolve_neg().reshape(-1).contiguous()
    # A tensor of one element counts as contiguous whatever its stride, and torch will not view that.
    flat = flat.as_strided(flat.shape, (1,))
    integers = _AS_INTEGERS.get(str(tensor.dtype).removeprefix("torch."))
    return (flat if integers is None else flat.view(getattr(torch, integers))).numpy()


def numbers(bits: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers that `bits` of a tensor of `dtype` stand for, in a dtype that numpy can widen without loss."""
    if dtype == "bfloat16":
        return np.left_shift(bits, 16, dtype=np.uint32).view(np.float32)
    if dtype == "complex32":
        return bits.view(np.float16).astype(np.float32).view(np.complex64)
    return np.take(_eight_bits(dtype), bits) if dtype in _EIGHT_BITS else bits


@cache
def _eight_bits(dtype: str) -> np.ndarray:
    """The numbers that the 256 patterns of an 8-bit float stand for."""
    exponent_bits, bias, special = _EIGHT_BITS[dtype]
    mantissa_bits = 7 - exponent_bits
    pattern = np.arange(256)
    sign = np.where(pattern < 128, 1.0, -1.0)
    exponent = pattern % 128 >> mantissa_bits
    fraction = pattern % (1 << mantissa_bits) / (1 << mantissa_bits)
    normal = np.ldexp(1.0 + fraction, exponent - bias)
    numbers = sign * np.where(exponent == 0, np.ldexp(fraction, 1 - bias), normal)
    if special == "fnuz":  # No infinities and no -0: its pattern is the one NaN.
        numbers[128] = np.nan
    elif special == "fn":  # No infinities, and a NaN of each sign.
        numbers[[127, 255]] = np.nan
    else:
        top = exponent == (1 << exponent_bits) - 1
        numbers[top] = np.where(fraction[top] == 0, sign[top] * np.inf, np.nan)
    return numbers
