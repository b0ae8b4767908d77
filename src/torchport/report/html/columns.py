"""The layers of a report as columns of short numbers, so that thousands of them fit in a page.

In: layers. Out: lists for JSON. A text that comes often is kept once, in `Texts`, and named by its number. A number
that is not finite is the string "NaN", "Infinity" or "-Infinity"; what was not measured is null.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torchport.parity.picture import BINS, SIDE, Picture
from torchport.parity.result import Layer, Measured
from torchport.report.places import shown

DIGITS = 4
_NUMBERS: dict[str, Callable[[Measured], float | None]] = {
    "maxAbs": lambda m: m.max_abs,
    "meanAbs": lambda m: m.mean_abs,
    "maxRel": lambda m: m.max_rel,
    "mse": lambda m: m.mse,
    # The cosine of a good port has many nines: what it lacks of 1 keeps its digits in a short number.
    "apart": lambda m: max(0.0, 1.0 - m.cosine) if math.isfinite(m.cosine) else m.cosine,
    "ratio": lambda m: m.ratio,
    "judged": lambda m: m.judged,
    "mismatch": lambda m: m.mismatch_pct,
    "goldenRms": lambda m: m.golden_rms,
    "goldenMax": lambda m: m.golden_max,
    "floorRms": lambda m: None if m.noise is None else m.noise.floor_rms,
    "floorMax": lambda m: None if m.noise is None else m.noise.floor_max,
    "distanceRms": lambda m: None if m.noise is None else m.noise.candidate_rms,
    "distanceMax": lambda m: None if m.noise is None else m.noise.candidate_max,
}
_COUNTS = ("nan_golden", "nan_candidate", "nan_mismatches", "inf_mismatches")
_TEXTS: dict[str, Callable[[Measured], str | None]] = {
    "rule": lambda m: m.rule,
    "reason": lambda m: m.reason,
    "incomparable": lambda m: m.incomparable,
    "golden": lambda m: tensor(m.golden_dtype, m.golden_shape),
    "candidate": lambda m: tensor(m.candidate_dtype, m.candidate_shape),
}


class Texts:
    """A table of texts by number, in which each text is once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str | None) -> int | None:
        return None if text is None else self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> list[str]:
        return list(self._numbers)


def layers(items: Sequence[Layer], texts: Texts) -> dict[str, Any]:
    """The columns of all layers, in the order of execution; a parent is given by its place in that order."""
    places = {layer.name: place for place, layer in enumerate(items)}
    return {
        "name": [layer.name for layer in items],
        "type": [texts.number(layer.type) for layer in items],
        "parent": [_parent(places, layer, place) for place, layer in enumerate(items)],
        "fails": [int(layer.fails) for layer in items],
        "unproven": [int(layer.unproven) for layer in items],
        "reason": [texts.number(layer.reason) for layer in items],
        "rule": [texts.number(layer.rule) for layer in items],
        "source": [texts.number(shown(layer.source)) for layer in items],
        "own": _measured(items, [layer.own for layer in items], texts),
        "chained": _measured(items, [layer.chained for layer in items], texts),
        "pictures": _pictures([layer.picture for layer in items]),
    }


def _parent(places: dict[str, int], layer: Layer, place: int) -> int | None:
    """The place of the caller, or None unless it comes after the layer: then no layer can be inside itself."""
    found = None if layer.parent is None else places.get(layer.parent)
    return found if found is not None and found > place else None


def _measured(layers: Sequence[Layer], items: Sequence[Measured | None], texts: Texts) -> dict[str, Any]:
    columns: dict[str, list[Any]] = {"there": [int(item is not None) for item in items]}
    for name, read in _NUMBERS.items():
        columns[name] = [None if item is None else short(read(item)) for item in items]
    for name in _COUNTS:
        columns[name] = [0 if item is None else getattr(item, name) for item in items]
    for name, text in _TEXTS.items():
        columns[name] = [None if item is None else texts.number(text(item)) for item in items]
    columns["value"] = [texts.number(_value(layer, item)) for layer, item in zip(layers, items, strict=True)]
    columns["worst"] = [None if item is None else _index(item.worst_index) for item in items]
    return {
        name: column for name, column in columns.items() if name == "there" or _says_something(name, column)
    }


def _says_something(name: str, column: list[Any]) -> bool:
    """Whether a column is worth writing: the page takes a missing one for nulls or, in counts, for zeros."""
    return any(value is not None and not (name in _COUNTS and value == 0) for value in column)


def _value(layer: Layer, item: Measured | None) -> str | None:
    """The value that was measured, or None if it is the layer's first output."""
    return None if item is None or item.key == layer.name else item.key


def _index(index: tuple[int, ...] | None) -> str | None:
    return None if index is None else ",".join(map(str, index))


def tensor(dtype: str, shape: Sequence[object]) -> str:
    return f"{dtype} [{', '.join(map(str, shape))}]"


def short(value: float | None) -> float | int | str | None:
    """A number with few digits; one that is not finite becomes a string, because JSON lacks it."""
    if value is None:
        return None
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    rounded = float(f"{value:.{DIGITS}g}")
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 1e15 else rounded


def _pictures(items: Sequence[Picture | None]) -> dict[str, Any]:
    """The pictures as base64, each of the same number of bytes: errors in 8 by 8 cells, then the two histograms."""
    size = SIDE * SIDE + 2 * BINS
    drawn = [picture for picture in items if picture is not None]
    values = np.zeros((len(drawn), size), dtype=np.float32)
    for row, picture in zip(values, drawn, strict=True):
        cells = np.array(picture.errors, dtype=np.float32).ravel()
        row[: cells.size] = cells
        row[SIDE * SIDE :] = picture.golden + picture.candidate
    numbers = iter(range(len(drawn)))
    return {
        "of": [None if picture is None else next(numbers) for picture in items],
        "across": [len(picture.errors[0]) for picture in drawn],
        "down": [len(picture.errors) for picture in drawn],
        "low": [short(picture.low) for picture in drawn],
        "high": [short(picture.high) for picture in drawn],
        "allowed": [short(picture.allowed) for picture in drawn],
        "side": SIDE,
        "bins": BINS,
        "values": base64.b64encode(_in_threes(bfloat16(values).view(np.uint8)).tobytes()).decode(),
    }


def _in_threes(rows: np.ndarray) -> np.ndarray:
    """The rows, padded with zeros to a multiple of three bytes, which is a whole number of letters in base64."""
    return np.pad(rows, ((0, 0), (0, -rows.shape[1] % 3)))


def bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 in two bytes: the range of float32, three digits, rounded to nearest; infinities stay."""
    bits = np.ascontiguousarray(values, dtype="<f4").view("<u4")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isfinite(values), rounded, bits >> 16).astype("<u2")
