"""Where the bits of each format are: blocks of ggml as records, and integers packed into bytes.

Integers come and go as columns of a block: the first axis is the place in the block.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchport.blocks.rounding import Bytes, Floats

RECORDS: dict[str, np.dtype[Any]] = {
    "q4_0": np.dtype([("d", "<f2"), ("qs", "u1", 16)]),
    "q4_1": np.dtype([("d", "<f2"), ("m", "<f2"), ("qs", "u1", 16)]),
    "q5_0": np.dtype([("d", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)]),
    "q5_1": np.dtype([("d", "<f2"), ("m", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)]),
    "q8_0": np.dtype([("d", "<f2"), ("qs", "i1", 32)]),
    "q2_k": np.dtype([("scales", "u1", 16), ("qs", "u1", 64), ("d", "<f2"), ("dmin", "<f2")]),
    "q3_k": np.dtype([("hmask", "u1", 32), ("qs", "u1", 64), ("scales", "u1", 12), ("d", "<f2")]),
    "q4_k": np.dtype([("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qs", "u1", 128)]),
    "q5_k": np.dtype(
        [("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qh", "u1", 32), ("qs", "u1", 128)]
    ),
    "q6_k": np.dtype([("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), ("d", "<f2")]),
}
Records = NDArray[Any]


def as_bytes(integers: Floats) -> Bytes:
    """Integers as C turns them into bytes: what is out of range wraps."""
    return integers.astype(np.int32).astype(np.uint8)


def nibbles(low: Bytes, high: Bytes) -> Bytes:
    return (low & 15) | (high << 4)


def halves_of_32(integers: Bytes) -> Bytes:
    """32 integers of 4 bits in 16 bytes: the first half in the low bits, the second in the high ones."""
    return nibbles(integers[:16], integers[16:] & 15).T


def from_halves_of_32(packed: Bytes) -> Bytes:
    return np.concatenate([packed.T & 15, packed.T >> 4])


def fifth_bits(integers: Bytes) -> Bytes:
    """Bit 4 of 32 integers as 4 bytes."""
    bits: Bytes = np.packbits((integers >> 4).T & 1, axis=1, bitorder="little")
    return bits


def from_fifth_bits(packed: Bytes) -> Bytes:
    return np.unpackbits(packed, axis=1, bitorder="little").T << 4


def pairs_of_64(integers: Bytes) -> Bytes:
    """256 integers of 4 bits in 128 bytes: of every 64, 32 in the low bits and 32 in the high ones."""
    parts = (integers & 15).reshape(4, 2, 32, -1)
    return np.ascontiguousarray((parts[:, 0] | (parts[:, 1] << 4)).reshape(128, -1).T)


def from_pairs_of_64(packed: Bytes) -> Bytes:
    parts = packed.T.reshape(4, 32, -1)
    return np.stack([parts & 15, parts >> 4], axis=1).reshape(256, -1)


def bits_by_32(integers: Bytes, bit: int) -> Bytes:
    """One bit of 256 integers in 32 bytes: that of every 32nd integer is in one byte."""
    planes = ((integers >> bit) & 1).reshape(8, 32, -1)
    shifts = np.arange(8, dtype=np.uint8).reshape(8, 1, 1)
    packed: Bytes = np.bitwise_or.reduce(planes << shifts, axis=0)
    return packed.T


def from_bits_by_32(packed: Bytes) -> Bytes:
    shifts = np.arange(8, dtype=np.uint8).reshape(8, 1, 1)
    planes: Bytes = (packed.T[None] >> shifts) & 1
    return planes.reshape(256, -1)


def quarters_of_128(integers: Bytes) -> Bytes:
    """256 integers of 2 bits in 64 bytes: of every 128, four times 32 beside each other in a byte."""
    parts = integers.reshape(2, 4, 32, -1)
    packed = parts[:, 0] | (parts[:, 1] << 2) | (parts[:, 2] << 4) | (parts[:, 3] << 6)
    return np.ascontiguousarray(packed.reshape(64, -1).T)


def from_quarters_of_128(packed: Bytes) -> Bytes:
    parts = packed.T.reshape(2, 1, 32, -1)
    shifts = np.array([0, 2, 4, 6], np.uint8).reshape(1, 4, 1, 1)
    integers: Bytes = (parts >> shifts) & 3
    return integers.reshape(256, -1)


def six_bits_low(integers: Bytes) -> Bytes:
    """The low 4 bits of 256 integers in 128 bytes: of every 128, the first 64 with the second 64."""
    parts = (integers & 15).reshape(2, 2, 64, -1)
    return np.ascontiguousarray((parts[:, 0] | (parts[:, 1] << 4)).reshape(128, -1).T)


def from_six_bits_low(packed: Bytes) -> Bytes:
    parts = packed.T.reshape(2, 64, -1)
    return np.stack([parts & 15, parts >> 4], axis=1).reshape(256, -1)


def scales_of_8(scales: Bytes, minima: Bytes) -> Bytes:
    """Eight scales and eight minima of 6 bits in 12 bytes."""
    packed = np.empty((12, scales.shape[1]), np.uint8)
    packed[0:4] = scales[:4] | ((scales[4:] >> 4) << 6)
    packed[4:8] = minima[:4] | ((minima[4:] >> 4) << 6)
    packed[8:12] = nibbles(scales[4:], minima[4:] & 15)
    return packed.T


def from_scales_of_8(packed: Bytes) -> tuple[Bytes, Bytes]:
    scales_, minima_, rest = packed.T[0:4], packed.T[4:8], packed.T[8:12]
    scales = np.concatenate([scales_ & 63, (rest & 15) | ((scales_ >> 6) << 4)])
    minima = np.concatenate([minima_ & 63, (rest >> 4) | ((minima_ >> 6) << 4)])
    return scales, minima


def scales_of_16(scales: Bytes) -> Bytes:
    """Sixteen scales of 6 bits in 12 bytes."""
    high = (scales >> 4).reshape(4, 4, -1)
    packed = np.empty((12, scales.shape[1]), np.uint8)
    packed[:8] = nibbles(scales[:8], scales[8:] & 15)
    packed[8:] = high[0] | (high[1] << 2) | (high[2] << 4) | (high[3] << 6)
    return packed.T


def from_scales_of_16(packed: Bytes) -> Bytes:
    low = np.concatenate([packed.T[:8] & 15, packed.T[:8] >> 4])
    high = np.concatenate([(packed.T[8:] >> shift) & 3 for shift in (0, 2, 4, 6)])
    scales: Bytes = low | (high << 4)
    return scales
