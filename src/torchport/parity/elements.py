"""Which elements of a tensor are out of bounds: how many, where, and what they have in common."""

from __future__ import annotations

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict

from torchport.parity.bins import Bin
from torchport.trace.residual import widened


class Span(BaseModel):
    """The part of an axis in which all of some elements are."""

    model_config = ConfigDict(frozen=True)

    axis: int
    first: int
    last: int
    size: int
    """The size of the whole axis."""

    def __str__(self) -> str:
        where = f"index {self.first}" if self.first == self.last else f"indices {self.first} to {self.last}"
        return f"{where} of axis {self.axis}"


class Elements(BaseModel):
    """The elements of a bin that are beyond the limit by which the bin failed."""

    model_config = ConfigDict(frozen=True)

    count: int
    of: int
    """The number of elements of the tensor."""
    first: tuple[int, ...]
    common: tuple[Span, ...]
    """The axes along which they are not everywhere."""

    def __str__(self) -> str:
        where = " and ".join(str(span) for span in self.common)
        return f"{self.count} of {self.of} elements, " + (
            f"all at {where}" if where else "all over the tensor"
        )


def wrong_elements(
    golden: torch.Tensor, candidate: torch.Tensor, residual: torch.Tensor, bin: Bin, limit: float
) -> Elements | None:
    """The elements of a bin whose distance from the truth is above `limit`; None if there are none."""
    truth = widened(golden.detach().cpu()) + widened(residual.detach().cpu())
    distance = (widened(candidate.detach().cpu()) - truth).abs().numpy()
    magnitudes = truth.abs().numpy()
    finite = np.isfinite(distance)
    wrong = (magnitudes >= bin.low) & (magnitudes < bin.high) & finite & (distance > limit)
    return _described(np.argwhere(wrong), golden.shape)


def _described(places: np.ndarray, shape: torch.Size) -> Elements | None:
    if not len(places):
        return None
    spans = (
        Span(axis=axis, first=int(places[:, axis].min()), last=int(places[:, axis].max()), size=size)
        for axis, size in enumerate(shape)
    )
    return Elements(
        count=len(places),
        of=shape.numel(),
        first=tuple(int(index) for index in places[0]),
        common=tuple(span for span in spans if span.last - span.first + 1 < span.size),
    )
