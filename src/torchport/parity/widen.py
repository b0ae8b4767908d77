"""From the bits of a tensor, as a file or torch has them, to numbers that numpy computes with without loss.

Floats become float64 and complex numbers complex128; integers and bools stay as they are.
"""

import numpy as np
import torch

_KNOWN = {
    torch.bool: np.bool_,
    torch.uint8: np.uint8,
    torch.int8: np.int8,
    torch.uint16: np.uint16,
    torch.int16: np.int16,
    torch.uint32: np.uint32,
    torch.int32: np.int32,
    torch.uint64: np.uint64,
    torch.int64: np.int64,
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.complex64: np.complex64,
    torch.complex128: np.complex128,
}
_NARROW = {
    torch.float16: (torch.uint16, torch.float32),
    torch.bfloat16: (torch.uint16, torch.float32),
    torch.float8_e4m3fn: (torch.uint8, torch.float32),
    torch.float8_e4m3fnuz: (torch.uint8, torch.float32),
    torch.float8_e5m2: (torch.uint8, torch.float32),
    torch.float8_e5m2fnuz: (torch.uint8, torch.float32),
    torch.complex32: (torch.uint32, torch.complex64),
}
"""What numpy lacks, or widens more slowly than torch: the integers that hold its bits, and what torch widens it to."""


def is_known(dtype: torch.dtype) -> bool:
    return dtype in _KNOWN or dtype in _NARROW


def bits_dtype(dtype: torch.dtype) -> np.dtype:
    """The numpy dtype of the arrays that hold a tensor's bits: its own where numpy is good at it, or integers."""
    return np.dtype(_KNOWN[_NARROW[dtype][0]] if dtype in _NARROW else _KNOWN[dtype])


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """The elements of a tensor, flat, as `widen` takes them; not copied where they lie in memory in a row."""
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().reshape(-1).contiguous()
    # A tensor of one element counts as contiguous whatever its stride, and torch will not view that.
    flat = flat.as_strided(flat.shape, (1,))
    return (flat.view(_NARROW[flat.dtype][0]) if flat.dtype in _NARROW else flat).numpy()


def widen(bits: np.ndarray, dtype: torch.dtype, room: np.ndarray | None = None) -> np.ndarray:
    """The numbers that `bits` of a tensor of `dtype` stand for, written to `room` where they are float64."""
    if dtype in _NARROW:
        bits = torch.from_numpy(bits).view(dtype).to(_NARROW[dtype][1]).numpy()
    if bits.dtype == np.float32 and room is not None:
        np.copyto(room[: bits.size], bits)
        return room[: bits.size]
    if bits.dtype.kind in "fc":
        return bits.astype(np.result_type(bits.dtype, np.float64), copy=False)
    return bits
