"""Where a backward pass starts: at a loss of the user's, or at the outputs of a model with random gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchport.candidates import leaves
from torchport.candidates.flow import Start
from torchport.errors import UsageError

Loss = Callable[[Any], Tensor]
SEED = 0


def starts_of(result: Any, loss: Loss | None) -> list[Start]:
    return _cotangents(leaves.tensors(result)) if loss is None else [(_scalar(loss(result)), None)]


def _cotangents(outputs: list[tuple[leaves.Path, Tensor]]) -> list[Start]:
    """Random numbers for each output, the same for outputs at the same place, in whatever order they come."""
    random = torch.Generator().manual_seed(SEED)
    found: list[Start] = []
    for _, output in sorted(outputs, key=lambda one: repr(one[0])):
        if output.is_floating_point():
            found.append((output, torch.randn(output.shape, generator=random).to(output)))
        elif output.is_complex():
            numbers = torch.randn(output.shape, generator=random, dtype=torch.complex64)
            found.append((output, numbers.to(output)))
    return found


def _scalar(value: Any) -> Tensor:
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise UsageError("TP0801", "loss= does not give a scalar tensor", fix="return for example x.sum()")
    return value
