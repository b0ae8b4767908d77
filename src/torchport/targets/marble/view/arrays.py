"""The arrays of a graph in a page of limited size: exact if there is room, else rounded, else as a small picture.

The largest arrays are rounded first. How far a number of the page is from the true one is kept with the array.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchport.targets.marble.view.packed import length, packed

SIDE = 64
"""The rows and columns of a picture, at most."""
_LARGEST_HALF = 65504.0
_BYTES = {"f8": 8, "f4": 4, "f2": 2, "u1": 1}
_WORDS = {
    "f2": "rounded to 16 bits",
    "u1": "rounded to 256 steps",
    "picture": "left out, but for a small picture",
    "none": "left out",
}


@dataclass(frozen=True)
class Shown:
    """An array as it is in the page, and the form that it has there."""

    name: str
    form: str
    data: dict[str, Any]

    @property
    def loss(self) -> str | None:
        """What is said of an array that is not exact; None if it is."""
        error = self.data["error"]
        words = _WORDS.get(self.form, "rounded to 32 bits")
        if self.form in ("picture", "none"):
            return words
        return f"{words}, off by at most {error:.2g}" if error else None


def shown(arrays: Mapping[str, Tensor], room: int) -> list[Shown]:
    """All arrays, in forms that together take at most `room` letters."""
    values = {name: _values(array) for name, array in arrays.items()}
    ladders = {name: _ladder(arrays[name], value) for name, value in values.items()}
    forms = _chosen(ladders, {name: value.shape for name, value in values.items()}, room)
    return [Shown(name, form, _data(name, form, arrays[name], values[name])) for name, form in forms.items()]


def _values(array: Tensor) -> np.ndarray:
    plain = array.detach().cpu()
    if plain.is_complex():
        plain = plain.abs()
    wide = plain.double() if plain.dtype in (torch.float64, torch.int64) else plain.float()
    return wide.numpy()


def _ladder(array: Tensor, values: np.ndarray) -> list[str]:
    """The forms that an array can have, the most exact first."""
    if array.is_complex():
        return ["none"]
    if array.dtype == torch.bool:
        return ["u1", "picture", "none"]
    largest = float(np.abs(values).max(initial=0.0))
    is_finite = math.isfinite(largest)
    found = ["f8"] if values.dtype == np.float64 else []
    found.append("f4")
    found += ["f2"] if is_finite and largest <= _LARGEST_HALF else []
    found += ["u1"] if is_finite else []
    return [*found, "picture", "none"]


def _chosen(
    ladders: Mapping[str, list[str]], shapes: Mapping[str, tuple[int, ...]], room: int
) -> dict[str, str]:
    """The form of each array: the one that takes most room goes down a step until all fit."""
    left = {name: list(ladder) for name, ladder in ladders.items()}
    costs = {name: _letters(ladder[0], shapes[name]) for name, ladder in left.items()}
    while sum(costs.values()) > room:
        name = max(costs, key=lambda one: costs[one])
        left[name].pop(0)
        costs[name] = _letters(left[name][0], shapes[name])
    return {name: ladder[0] for name, ladder in left.items()}


def _letters(form: str, shape: tuple[int, ...]) -> int:
    if form == "none":
        return 0
    if form == "picture":
        return length(math.prod(-(-size // _block(size)) for size in _as_matrix(shape)) * _BYTES["f4"])
    return length(math.prod(shape) * _BYTES[form])


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """The first axis down, all others across."""
    return (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))


def _block(size: int) -> int:
    """How many rows or columns are one of a picture."""
    return max(1, -(-size // SIDE))


def _data(name: str, form: str, array: Tensor, values: np.ndarray) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": name,
        "shape": list(array.shape),
        "dtype": str(array.dtype).removeprefix("torch."),
        "form": form,
        "error": 0.0,
        "largest": _largest(values),
    }
    if form == "picture":
        picture = _picture(values)
        return {**data, "picture": packed(picture, "<f4"), "pictureShape": list(picture.shape)}
    if form == "u1":
        low, step = _steps(array, values)
        levels = np.rint((values.astype(np.float64) - low) / step)
        error = np.abs(levels * step + low - values).max(initial=0.0)
        return {**data, "values": packed(levels, "u1"), "low": low, "step": step, "error": float(error)}
    if form == "none":
        return data
    kept = values.astype(f"<{form}")
    return {**data, "values": packed(kept, f"<{form}"), "error": _error(kept, values)}


def _largest(values: np.ndarray) -> float:
    """The largest finite magnitude."""
    return float(np.abs(values, where=np.isfinite(values), out=np.zeros_like(values)).max(initial=0.0))


def _steps(array: Tensor, values: np.ndarray) -> tuple[float, float]:
    if array.dtype == torch.bool or not values.size:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return low, (high - low) / 255 or 1.0


def _error(kept: np.ndarray, values: np.ndarray) -> float:
    finite = np.isfinite(values)
    apart = np.abs(kept[finite].astype(np.float64) - values[finite].astype(np.float64))
    return float(apart.max(initial=0.0))


def _picture(values: np.ndarray) -> np.ndarray:
    """A matrix of at most `SIDE` rows and columns: of each block the value of the largest magnitude."""
    matrix = values.reshape(_as_matrix(values.shape))
    by_columns = _strongest(matrix, _block(matrix.shape[1]))
    return _strongest(by_columns.T, _block(matrix.shape[0])).T


def _strongest(matrix: np.ndarray, width: int) -> np.ndarray:
    """Of every `width` columns the value of the largest magnitude."""
    padded = np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % width)))
    blocks = padded.reshape(len(matrix), -1, width)
    found: np.ndarray = np.take_along_axis(blocks, np.abs(blocks).argmax(2)[:, :, None], 2)[:, :, 0]
    return found
