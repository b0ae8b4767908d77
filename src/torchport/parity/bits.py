"""From the bits of a tensor, as a file or torch has them, to numbers that numpy computes with, without loss.

Bits of a dtype that numpy lacks are kept as unsigned integers of the same size.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from torchport.parity.dtypes import name_of

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


def bits_dtype(dtype: str) -> np.dtype:
    """The numpy dtype of an array that holds the bits of a tensor."""
    return np.dtype(_AS_INTEGERS.get(dtype, dtype))


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """The elements of a tensor, flat, as `numbers` takes them; not copied if they lie in memory in a row."""
    import torch

    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    integers = _AS_INTEGERS.get(name_of(tensor.dtype))
    elements: np.ndarray = (plain if integers is None else plain.view(getattr(torch, integers))).numpy()
    return elements.reshape(-1)


def numbers(bits: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers that `bits` of a tensor of `dtype` stand for, in a dtype that numpy can widen without loss."""
    wider = bits
    if dtype == "bfloat16":
        wider = bits.view(ml_dtypes.bfloat16).astype(np.float32)
    elif dtype == "complex32":
        wider = bits.view(np.float16).astype(np.float32).view(np.complex64)
    elif _AS_INTEGERS.get(dtype) == "uint8":
        wider = np.take(_eight_bits(dtype), bits)
    return wider


@cache
def _eight_bits(dtype: str) -> np.ndarray:
    """The numbers that the 256 patterns of an 8-bit float stand for: to look them up is faster than to convert each."""
    found: np.ndarray = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, dtype)).astype(np.float64)
    return found
