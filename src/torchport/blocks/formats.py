"""The formats by name: rows of weights to blocks and back, a few at a time.

`quantise` gives the very bytes that ggml gives. What no format can hold is refused, with its name and the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from torchport.blocks import awq, small_blocks, super_blocks
from torchport.blocks.gguf import TYPES, nbytes_of
from torchport.blocks.layout import RECORDS, Records
from torchport.blocks.rounding import Bytes, Floats
from torchport.errors import QuantError, UsageError

AT_A_TIME = 1 << 18
"""Weights that are quantised at a time, so that what the search needs stays in the cache."""
AWQ = "awq"
"""The one format that is no blocks: what it stands for is stored as floats."""


class Format(NamedTuple):
    """A format of blocks: its name, and how blocks of it are made and read."""

    name: str
    make: Callable[[Floats, Floats | None], Records]
    read: Callable[[Records], Floats]

    @property
    def size(self) -> int:
        """The weights in a block."""
        return TYPES[self.name].elements

    @property
    def bits(self) -> float:
        """Bits for a weight."""
        return 8 * TYPES[self.name].nbytes / self.size


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        Format("q8_0", small_blocks.quantise_q8_0, small_blocks.dequantise_q8_0),
        *(
            Format(
                name,
                partial(small_blocks.quantise_symmetric, format_=name),
                partial(small_blocks.dequantise_symmetric, format_=name),
            )
            for name in ("q4_0", "q5_0")
        ),
        *(
            Format(
                name, partial(small_blocks.quantise_shifted, format_=name), small_blocks.dequantise_shifted
            )
            for name in ("q4_1", "q5_1")
        ),
        *(
            Format(
                name,
                partial(super_blocks.quantise_shifted, format_=name),
                partial(super_blocks.dequantise_shifted, format_=name),
            )
            for name in ("q2_k", "q4_k", "q5_k")
        ),
        Format("q3_k", super_blocks.quantise_q3_k, super_blocks.dequantise_q3_k),
        Format("q6_k", super_blocks.quantise_q6_k, super_blocks.dequantise_q6_k),
    )
}


def format_called(name: str) -> str:
    """The format of a name in full, in whatever case."""
    if name.lower() not in (*FORMATS, AWQ):
        known = ", ".join((*FORMATS, AWQ))
        raise UsageError("TP0801", f"there is no format {name!r}", fix=f"Give one of {known}.")
    return name.lower()


def why_not(form: str, width: int) -> str | None:
    """Why rows of a width cannot be in a format; None if they can."""
    size = awq.GROUP if form == AWQ else FORMATS[form].size
    if width == 0 or width % size:
        return f"its rows have {width} weights, which is no multiple of the {size} in a block of {form}"
    return None


def bytes_in(form: str, shape: tuple[int, ...]) -> int:
    """What a weight takes up in a format."""
    if form == AWQ:
        return math.ceil(math.prod(shape) * awq.BITS / 8)
    return nbytes_of(form, shape)


def rounded(name: str, rows: np.ndarray, form: str, importance: np.ndarray | None = None) -> Floats:
    """The weights that are left of a matrix in a format."""
    if form != AWQ:
        return dequantise(quantise(name, rows, FORMATS[form], importance), FORMATS[form])
    if (reason := why_not(AWQ, rows.shape[1])) is not None:
        raise QuantError("TP0350", f"{name} cannot be {AWQ}: {reason}", where=name)
    if importance is None:
        raise QuantError("TP0353", f"{AWQ} needs the inputs of {name}, which are not known", where=name)
    if not np.isfinite(rows).all():
        raise QuantError("TP0350", f"{name} has weights that are NaN or infinite", where=name)
    weights = _importance(name, importance, rows.shape[1])
    values = np.ascontiguousarray(rows, dtype=np.float32)
    made = awq.quantise_awq(values, weights)
    if made is None:
        raise _too_large(name, values, AWQ)
    return made.weights


def _too_large(name: str, values: Floats, form: str) -> QuantError:
    message = f"{name} has weights up to {np.abs(values).max():.3g}: the scales of {form} end at 65504"
    return QuantError("TP0350", message, where=name)


def quantise(name: str, rows: np.ndarray, form: Format, importance: np.ndarray | None = None) -> Bytes:
    """The blocks of a matrix, a row of bytes for each of its rows; `name` is what a message calls it."""
    if rows.ndim != 2:
        raise QuantError("TP0350", f"{name} has {rows.ndim} axes, and blocks are of rows", where=name)
    if (reason := why_not(form.name, rows.shape[1])) is not None:
        raise QuantError("TP0350", f"{name} cannot be {form.name}: {reason}", where=name)
    weights = None if importance is None else _importance(name, importance, rows.shape[1])
    step = max(1, AT_A_TIME // rows.shape[1])
    made = [_made(name, rows[at : at + step], form, weights) for at in range(0, len(rows), step)]
    row_bytes = rows.shape[1] // form.size * TYPES[form.name].nbytes
    return np.concatenate(made) if made else np.empty((0, row_bytes), np.uint8)


def _made(name: str, rows: np.ndarray, form: Format, importance: Floats | None) -> Bytes:
    values = np.ascontiguousarray(rows, dtype=np.float32)
    if not np.isfinite(values).all():
        raise QuantError("TP0350", f"{name} has weights that are NaN or infinite", where=name)
    with np.errstate(
        over="ignore", invalid="ignore", divide="ignore"
    ):  # What is too large for a format is looked for in its scales.
        blocks = form.make(values, importance)
    if not all(
        np.isfinite(blocks[half]).all() for half in ("d", "m", "dmin") if half in (blocks.dtype.names or ())
    ):
        raise _too_large(name, values, form.name)
    return blocks.view(np.uint8).reshape(len(values), -1)


def _importance(name: str, importance: np.ndarray, width: int) -> Floats:
    weights = np.ascontiguousarray(importance, dtype=np.float32)
    if weights.shape != (width,):
        message = (
            f"the importance of {name} has shape {tuple(weights.shape)}, and its rows have {width} weights"
        )
        raise QuantError("TP0353", message, where=name)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise QuantError(
            "TP0353", f"the importance of {name} is negative, NaN or infinite somewhere", where=name
        )
    return weights


def dequantise(blocks: Bytes, form: Format) -> Floats:
    """The weights that blocks stand for, a row for each row of bytes."""
    if len(blocks) == 0:
        return np.empty((0, blocks.shape[1] // TYPES[form.name].nbytes * form.size), np.float32)
    step = max(1, AT_A_TIME * TYPES[form.name].nbytes // form.size // blocks.shape[1])
    return np.concatenate([_read(blocks[at : at + step], form) for at in range(0, len(blocks), step)])


def _read(blocks: Bytes, form: Format) -> Floats:
    records = np.ascontiguousarray(blocks).reshape(-1).view(RECORDS[form.name])
    return np.ascontiguousarray(form.read(records).T).reshape(len(blocks), -1)
