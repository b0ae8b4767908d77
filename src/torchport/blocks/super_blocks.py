"""The K-quants: blocks of 256 weights in 8 or 16 groups, of which the scales are quantised too; as ggml makes them.

In: rows of weights, and how much each column matters if that is known. Out: records, a block each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from torchport.blocks import layout, search
from torchport.blocks.layout import RECORDS, Records
from torchport.blocks.rounding import TINY, Bytes, Floats, clipped, columns, farthest, halved, nearest, summed

_f32 = np.float32
SIZE = 256


class _Search(NamedTuple):
    """How a format with minima looks for them: groups, the largest integer, the ranges that are tried."""

    group: int
    limit: int
    scale_limit: int
    first: float
    steps: int
    absolute: bool = False


_SEARCHES = {
    "q2_k": _Search(16, 3, 15, -0.5, 15, absolute=True),
    "q4_k": _Search(32, 15, 63, -1.0, 20),
    "q5_k": _Search(32, 31, 63, -0.5, 15),
}


class _Groups(NamedTuple):
    """Scales and minima of the groups of blocks as they are stored; the second axis is the block."""

    scales: Bytes
    minima: Bytes
    d: Floats
    dmin: Floats


def quantise_shifted(rows: Floats, importance: Floats | None, format_: str) -> Records:
    """Q2_K, Q4_K and Q5_K."""
    asked = _SEARCHES[format_]
    values = columns(rows, asked.group)
    count = SIZE // asked.group
    if importance is None:
        weights = _plain_weights(values, asked)
        found = search.shifted(
            values,
            asked.limit,
            weights,
            first=asked.first,
            delta=0.1,
            steps=asked.steps,
            absolute=asked.absolute,
        )
        groups = _rounded_to_largest(found, count, asked.scale_limit)
    else:
        weights = _weights(rows, values, importance, asked.group, 1 if format_ == "q2_k" else 2)
        found = search.shifted(values, asked.limit, weights, first=-0.9, delta=0.05, steps=36)
        groups = _searched(found, summed(weights), count, asked.scale_limit)
    return _packed_shifted(format_, values, found.integers, groups)


def _plain_weights(values: Floats, asked: _Search) -> Floats:
    if asked.absolute:
        return np.abs(values)
    return np.sqrt(summed(values * values) / _f32(asked.group)) + np.abs(values)


def _rounded_to_largest(found: search.Shifted, count: int, limit: int) -> _Groups:
    """The scales of a block as shares of the largest."""
    parts = []
    for given in (found.scale, found.minimum):
        scales = columns(given[None], count)
        largest = np.maximum(scales.max(axis=0), _f32(0))
        share = np.divide(_f32(limit), largest, out=np.zeros_like(largest), where=largest > 0)
        integers = layout.as_bytes(nearest(share * scales))
        parts.append((np.minimum(integers, limit), largest / _f32(limit)))
    return _Groups(parts[0][0], parts[1][0], parts[0][1], parts[1][1])


def _searched(found: search.Shifted, weights: Floats, count: int, limit: int) -> _Groups:
    """The scales of a block as the best approximation of all of them."""
    of_groups = columns(weights[None], count)
    scales = search.positive(columns(found.scale[None], count), limit, of_groups)
    minima = search.positive(columns(found.minimum[None], count), limit, of_groups)
    return _Groups(
        layout.as_bytes(scales.integers), layout.as_bytes(minima.integers), scales.scale, minima.scale
    )


def _packed_shifted(format_: str, values: Floats, integers: Floats, groups: _Groups) -> Records:
    limit = _SEARCHES[format_].limit
    blocks = np.empty(groups.d.shape[0], RECORDS[format_])
    blocks["d"], blocks["dmin"] = halved(groups.d), halved(groups.dmin)
    if format_ == "q2_k":
        blocks["scales"] = (groups.scales | (groups.minima << 4)).T
    else:
        blocks["scales"] = layout.scales_of_8(groups.scales, groups.minima)
    # A search may give what the bits do not hold, so that what was packed is read again, as ggml does.
    scales, minima = _stored_scales(blocks, format_)
    scale = _spread(blocks["d"].astype(_f32) * scales.astype(_f32))
    least = _spread(blocks["dmin"].astype(_f32) * minima.astype(_f32))
    known = scale != 0
    again = clipped((values + least) / np.where(known, scale, _f32(1)), 0, limit)
    whole = _whole(np.where(known, again, integers))
    if format_ == "q2_k":
        blocks["qs"] = layout.quarters_of_128(whole)
        return blocks
    blocks["qs"] = layout.pairs_of_64(whole)
    if format_ == "q5_k":
        blocks["qh"] = layout.bits_by_32(whole, 4)
    return blocks


def _stored_scales(blocks: Records, format_: str) -> tuple[Bytes, Bytes]:
    """The scales and the minima of the groups as a file has them."""
    if format_ == "q2_k":
        return blocks["scales"].T & 15, blocks["scales"].T >> 4
    return layout.from_scales_of_8(blocks["scales"])


def dequantise_shifted(blocks: Records, format_: str) -> Floats:
    scales, minima = _stored_scales(blocks, format_)
    integers = (layout.from_quarters_of_128 if format_ == "q2_k" else layout.from_pairs_of_64)(blocks["qs"])
    if format_ == "q5_k":
        integers = integers | (layout.from_bits_by_32(blocks["qh"]) << 4)
    repeats = _SEARCHES[format_].group
    scale = (blocks["d"].astype(_f32) * scales.astype(_f32)).repeat(repeats, axis=0)
    least = (blocks["dmin"].astype(_f32) * minima.astype(_f32)).repeat(repeats, axis=0)
    return scale * integers.astype(_f32) - least


def quantise_q3_k(rows: Floats, importance: Floats | None) -> Records:
    values = columns(rows, 16)
    if importance is None:
        found = search.refined(values, 4)
        scales = columns(found.scale[None], 16)
        largest = farthest(scales)
        inverse = np.divide(_f32(-32), largest, out=np.zeros_like(largest), where=largest != 0)
        stored = clipped(_wrapped(inverse * scales), -32, 31) + _f32(32)
        stored[:, largest == 0] = 0
        d = np.divide(_f32(1), inverse, out=np.zeros_like(largest), where=inverse != 0)
    else:
        weights = _weights(rows, values, importance, 16, 2)
        found = search.symmetric(values, 4, weights)
        of_block = columns(found.scale[None], 16), columns(summed(weights)[None], 16)
        d, stored = search.symmetric(of_block[0], 32, of_block[1])
    blocks = np.empty(d.shape[0], RECORDS["q3_k"])
    blocks["d"], blocks["scales"] = halved(d), layout.scales_of_16(layout.as_bytes(stored))
    scale = _spread(blocks["d"].astype(_f32) * (stored - _f32(32)))
    whole = _whole(_again(values, scale, found.integers, 4))
    blocks["hmask"] = layout.bits_by_32(whole, 2)
    blocks["qs"] = layout.quarters_of_128(whole & 3)
    return blocks


def _wrapped(values: Floats) -> Floats:
    """The nearest integers as C keeps them in a signed byte."""
    return nearest(values).astype(np.int32).astype(np.int8).astype(_f32)


def dequantise_q3_k(blocks: Records) -> Floats:
    scales = layout.from_scales_of_16(blocks["scales"]).astype(_f32) - _f32(32)
    high = layout.from_bits_by_32(blocks["hmask"]) << 2
    integers = (layout.from_quarters_of_128(blocks["qs"]) | high).astype(_f32) - _f32(4)
    weights: Floats = (blocks["d"].astype(_f32) * scales).repeat(16, axis=0) * integers
    return weights


def quantise_q6_k(rows: Floats, importance: Floats | None) -> Records:
    values = columns(rows, 16)
    weights = None
    if importance is not None:
        weights = np.tile(columns(importance[None], 16), len(rows))
    found = search.symmetric(values, 32, weights)
    scales = columns(found.scale[None], 16)
    largest = farthest(scales)
    is_zero = np.abs(largest) < TINY
    inverse = _f32(-128) / np.where(is_zero, _f32(1), largest)
    stored = np.minimum(nearest(inverse * scales), _f32(127))
    blocks = np.empty(largest.shape[0], RECORDS["q6_k"])
    blocks["d"], blocks["scales"] = halved(_f32(1) / inverse), stored.astype(np.int32).astype(np.int8).T
    scale = _spread(blocks["d"].astype(_f32) * blocks["scales"].T.astype(_f32))
    whole = _whole(_again(values, scale, found.integers, 32))
    blocks["ql"] = layout.six_bits_low(whole)
    blocks["qh"] = layout.quarters_of_128(whole >> 4)
    blocks[is_zero] = np.zeros((), RECORDS["q6_k"])
    return blocks


def dequantise_q6_k(blocks: Records) -> Floats:
    integers = layout.from_six_bits_low(blocks["ql"]) | (layout.from_quarters_of_128(blocks["qh"]) << 4)
    scale = blocks["d"].astype(_f32) * blocks["scales"].T.astype(_f32)
    weights: Floats = scale.repeat(16, axis=0) * (integers.astype(_f32) - _f32(32))
    return weights


def _weights(rows: Floats, values: Floats, importance: Floats, group: int, factor: int) -> Floats:
    """How much the error of each weight matters: by its column, and more if it is large for its block."""
    squares = summed(np.square(columns(rows, SIZE)))
    mean_square = _f32(factor) * squares / _f32(SIZE)
    of_columns = np.tile(columns(importance[None], group), len(rows))
    weights: Floats = of_columns * np.sqrt(np.repeat(mean_square, SIZE // group) + values * values)
    return weights


def _again(values: Floats, scale: Floats, integers: Floats, limit: int) -> Floats:
    """The integers for the scale as it is stored; those that were found first if it is stored as 0."""
    known = scale != 0
    again = clipped(values / np.where(known, scale, _f32(1)), -limit, limit - 1) + _f32(limit)
    return np.where(known, again, integers)


def _spread(of_groups: Floats) -> Floats:
    """What is known of each group of each block, in the order of the groups."""
    return np.ascontiguousarray(of_groups.T).reshape(-1)


def _whole(integers: Floats) -> Bytes:
    """The integers of groups as those of blocks, a block a column."""
    blocks: Bytes = layout.as_bytes(integers).T.reshape(-1, SIZE).T
    return np.ascontiguousarray(blocks)
