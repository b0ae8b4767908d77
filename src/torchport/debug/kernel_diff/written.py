"""What a run writes to: buffers, parameters and inputs that are others afterwards, such as the mean of a batch norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from torchport.capture.torch_internals import without_modes

WRITTEN = "written "
"""What the names of such values begin with in a report."""


@dataclass(frozen=True)
class Before:
    """Copies of the weights of a model as they are before a run."""

    model: nn.Module
    copies: Mapping[str, Tensor]

    @classmethod
    def of(cls, model: nn.Module) -> Before:
        with without_modes():
            return cls(model, {name: one.detach().clone() for name, one in _weights(model).items()})

    def written(self, given: Mapping[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
        """By name, what was written to; of the inputs, `given` has what they were and what they are."""
        now = _weights(self.model)
        pairs = {name: (copy, now[name]) for name, copy in self.copies.items() if name in now} | dict(given)
        with without_modes():
            return {
                f"{WRITTEN}{name}": after.detach().clone()
                for name, (before, after) in pairs.items()
                if _is_changed(before, after)
            }

    def put_back(self) -> None:
        """Parameters as they were, which a forward pass has no business to write to."""
        parameters = dict(self.model.named_parameters())
        with without_modes(), torch.no_grad():
            for name, parameter in parameters.items():
                if name in self.copies and _is_changed(self.copies[name], parameter):
                    parameter.data.copy_(self.copies[name])


def _weights(model: nn.Module) -> dict[str, Tensor]:
    found = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: one for name, one in found.items() if not one.is_meta and one.layout is torch.strided}


def _is_changed(before: Tensor, after: Tensor) -> bool:
    """Whether values are others, bit by bit, but for a wider dtype. On the meta device there are none."""
    if before.shape != after.shape:
        return True
    if after.is_meta:
        return False
    now, then = after.detach(), before.detach().to(device=after.device, dtype=after.dtype)
    return not bool(((now == then) | ((now != now) & (then != then))).all())
