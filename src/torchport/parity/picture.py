"""A small picture of one comparison: where in a tensor the error lies, and how the values are spread."""

from __future__ import annotations

import math

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

SIDE = 8
BINS = 24
_AT_A_TIME = 1 << 20


class Picture(BaseModel):
    """At most 8 by 8 cells of errors, and two histograms over the same range.

    The tensor is drawn as a matrix: the last axis across, all others down. NaN and Inf count as an
    infinite error unless both tensors have the same at that place.
    """

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    errors: tuple[tuple[float, ...], ...]
    """The largest absolute error in each cell, row by row."""
    low: float
    high: float
    """The range of the histograms; values outside it are in the first or the last bin."""
    golden: tuple[int, ...]
    candidate: tuple[int, ...]
    """The number of values in each bin; NaN is in none."""
    allowed: float | None = None
    """The error that the rule allows an element, to see the errors as shares of it; None if no number says so."""


def draw(
    golden: torch.Tensor, candidate: torch.Tensor, golden_max: float, allowed: float | None = None
) -> Picture | None:
    """The picture of two tensors, or None if they are empty, complex or of different shapes."""
    if (
        golden.shape != candidate.shape
        or golden.numel() == 0
        or golden.is_complex()
        or candidate.is_complex()
    ):
        return None
    columns = golden.shape[-1] if golden.ndim else 1
    reach = golden_max if math.isfinite(golden_max) and golden_max > 0 else 1.0
    goldens, candidates = golden.reshape(-1, columns), candidate.reshape(-1, columns)
    rows = len(goldens)
    down, across = min(SIDE, rows), min(SIDE, columns)
    cells = np.zeros((down, across))
    counts = np.zeros((2, BINS), dtype=np.int64)
    step = max(1, _AT_A_TIME // columns)
    for start in range(0, rows, step):
        pair = [_floats(part[start : start + step]) for part in (goldens, candidates)]
        which = (np.arange(start, start + len(pair[0])) * down) // rows
        _add_errors(cells, which, *pair)
        for row, values in zip(counts, pair, strict=True):
            row += _histogram(values, reach)
    return Picture(
        errors=tuple(tuple(_short(cell) for cell in row) for row in cells.tolist()),
        low=-reach,
        high=reach,
        golden=tuple(counts[0].tolist()),
        candidate=tuple(counts[1].tolist()),
        allowed=allowed,
    )


def _floats(part: torch.Tensor) -> np.ndarray:
    return part.detach().cpu().double().numpy()


def _add_errors(cells: np.ndarray, which: np.ndarray, golden: np.ndarray, candidate: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        errors = np.abs(candidate - golden)
    alike = (golden == candidate) | (np.isnan(golden) & np.isnan(candidate))
    errors = np.where(alike, 0.0, np.where(np.isnan(errors), np.inf, errors))
    across = cells.shape[1]
    edges = np.array([(errors.shape[1] * cell + across - 1) // across for cell in range(across)])
    np.maximum.at(cells, which, np.maximum.reduceat(errors, edges, axis=1))


def _histogram(values: np.ndarray, reach: float) -> np.ndarray:
    finite = np.clip(values[~np.isnan(values)], -reach, reach)
    return np.histogram(finite, bins=BINS, range=(-reach, reach))[0]


def _short(value: float) -> float:
    return float(f"{value:.3g}")
