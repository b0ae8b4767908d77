"""The elements of an image are read in another order than they are stored in."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis


def channels_last(operation: BoundOperation) -> Iterator[Hypothesis]:
    """An image read as if its channels came last."""
    for name in ("self", "input"):
        image = operation.get(name)
        if isinstance(image, torch.Tensor) and image.ndim == 4:
            text = f"{name} is read with its channels last"
            yield Hypothesis("channels_last", text, partial(_with_channels_last, operation, name))


def _with_channels_last(operation: BoundOperation, name: str) -> Any:
    image: torch.Tensor = operation[name]
    batch, channels, height, width = image.shape
    return operation(**{name: image.reshape(batch, height, width, channels).permute(0, 3, 1, 2).contiguous()})
