"""The formats with blocks of 32 weights: Q8_0, Q4_0, Q4_1, Q5_0 and Q5_1, bit for bit as ggml makes them.

In: rows of weights, and how much each column matters if that is known. Out: records, a block each.
"""

from __future__ import annotations

import numpy as np

from torchport.blocks import layout, search
from torchport.blocks.layout import RECORDS, Records
from torchport.blocks.rounding import Bytes, Floats, columns, farthest, halved, inverse, least_of, summed

_f32 = np.float32
SIZE = 32


def quantise_q8_0(rows: Floats, importance: Floats | None = None) -> Records:
    """Importance changes nothing here."""
    values = columns(rows, SIZE)
    scale = np.abs(values).max(axis=0) / _f32(127)
    scaled = values * inverse(scale)
    integers = np.trunc(scaled)
    integers += np.copysign(np.abs(scaled - integers) >= _f32(0.5), scaled)
    blocks = np.empty(values.shape[1], RECORDS["q8_0"])
    blocks["d"], blocks["qs"] = halved(scale), integers.astype(np.int8).T
    return blocks


def dequantise_q8_0(blocks: Records) -> Floats:
    return blocks["qs"].T.astype(_f32) * blocks["d"].astype(_f32)


def quantise_symmetric(rows: Floats, importance: Floats | None, format_: str) -> Records:
    """Q4_0 and Q5_0."""
    limit = {"q4_0": 8, "q5_0": 16}[format_]
    values = columns(rows, SIZE)
    if importance is None:
        scale = farthest(values) / _f32(-limit)
        shifted = values * inverse(scale) + _f32(limit + 0.5)
        integers = np.minimum(shifted.astype(np.int8), 2 * limit - 1).astype(np.uint8)
    else:
        found = search.symmetric(values, limit, _weights(rows, values, importance))
        scale, integers = found.scale, layout.as_bytes(found.integers)
    return _packed(format_, integers, d=scale)


def dequantise_symmetric(blocks: Records, format_: str) -> Floats:
    limit = {"q4_0": 8, "q5_0": 16}[format_]
    return (_integers(blocks).astype(_f32) - _f32(limit)) * blocks["d"].astype(_f32)


def quantise_shifted(rows: Floats, importance: Floats | None, format_: str) -> Records:
    """Q4_1 and Q5_1."""
    limit = {"q4_1": 15, "q5_1": 31}[format_]
    values = columns(rows, SIZE)
    if importance is None:
        least = least_of(values)
        scale = (values.max(axis=0) - least) / _f32(limit)
        integers = ((values - least) * inverse(scale) + _f32(0.5)).astype(np.uint8)
        integers = np.minimum(integers, limit)
    else:
        weights = _weights(rows, values, importance)
        found = search.shifted(values, limit, weights, first=-0.9, delta=0.05, steps=36)
        scale, least, integers = found.scale, -found.minimum, layout.as_bytes(found.integers)
    return _packed(format_, integers, d=scale, m=least)


def dequantise_shifted(blocks: Records) -> Floats:
    scale, least = blocks["d"].astype(_f32), blocks["m"].astype(_f32)
    return _integers(blocks).astype(_f32) * scale + least


def _weights(rows: Floats, values: Floats, importance: Floats) -> Floats:
    """How much the error of each weight matters: by its column, and more if it is large for its row."""
    per_row = rows.shape[1] // SIZE
    mean_square = summed(np.square(np.ascontiguousarray(rows.T))) / _f32(rows.shape[1])
    of_columns = np.tile(columns(importance[None], SIZE), len(rows))
    weights: Floats = of_columns * np.sqrt(np.repeat(mean_square, per_row) + values * values)
    return weights


def _packed(format_: str, integers: Bytes, **halves: Floats) -> Records:
    blocks = np.empty(integers.shape[1], RECORDS[format_])
    for name, values in halves.items():
        blocks[name] = halved(values)
    if "qh" in (RECORDS[format_].names or ()):
        blocks["qh"] = layout.fifth_bits(integers)
    blocks["qs"] = layout.halves_of_32(integers)
    return blocks


def _integers(blocks: Records) -> Bytes:
    low = layout.from_halves_of_32(blocks["qs"])
    return low | layout.from_fifth_bits(blocks["qh"]) if "qh" in (blocks.dtype.names or ()) else low
