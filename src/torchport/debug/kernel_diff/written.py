"""What a run writes to: buffers, parameters and inputs that are others afterwards, such as the mean of a batch norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from torchport.capture.torch_internals import without_modes
from torchport.debug.kernel_diff.captured import reach, same_layout

WRITTEN = "written "
"""What the names of such values begin with in a report."""


@dataclass(frozen=True)
class Before:
    """Copies of the weights of a model as they are before a run: one for a whole comparison.

    A backend may write to any weight, behind torch's back, so that all have to be known.
    """

    model: nn.Module
    copies: Mapping[str, Tensor]
    places: Mapping[int, str]
    """By the address of memory, the name of the weight that lies there."""

    @classmethod
    def of(cls, model: nn.Module, known: Before | None = None) -> Before:
        """What of `known`, an earlier one, is as the model is now, is not copied again."""
        earlier = {} if known is None else known.copies
        with without_modes():
            weights = _weights(model)
            copies = {
                name: earlier[name] if _is_same(earlier.get(name), one) else _copied(one)
                for name, one in weights.items()
            }
            places = {_address(one): name for name, one in weights.items() if _is_plain(one)}
        return cls(model, copies, places)

    def name_of(self, tensor: Tensor) -> str | None:
        """The name of a weight, if a tensor is all of it."""
        name = self.places.get(_address(tensor)) if _is_plain(tensor) and tensor.numel() else None
        weight = None if name is None else _weights(self.model)[name]
        is_all = weight is not None and (weight.shape, weight.data_ptr()) == (tensor.shape, tensor.data_ptr())
        return name if is_all else None

    def copy_of(self, tensor: Tensor) -> Tensor | None:
        """The copy of a weight, if a tensor is one of them, or a view of one, as it was; it must not be written to."""
        name = self.places.get(_address(tensor)) if _is_plain(tensor) and tensor.numel() else None
        if name is None:
            return None
        weight, copy = _weights(self.model)[name], self.copies[name]
        start = tensor.storage_offset() - weight.storage_offset()
        if start < 0 or start + reach(tensor) > reach(weight) or tensor.dtype != copy.dtype:
            return None
        view = torch.as_strided(copy, tensor.shape, tensor.stride(), copy.storage_offset() + start)
        return view if _is_same(view, tensor) else None

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
        """Makes the weights what they were, so that the next run starts with them."""
        with without_modes(), torch.no_grad():
            for name, weight in _weights(self.model).items():
                if name in self.copies and _is_changed(self.copies[name], weight):
                    weight.data.copy_(self.copies[name])


def _weights(model: nn.Module) -> dict[str, Tensor]:
    found = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: one for name, one in found.items() if not one.is_meta and one.layout is torch.strided}


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is its memory, and no class of somebody's."""
    return type(tensor) in (Tensor, nn.Parameter, nn.Buffer) and tensor.layout is torch.strided


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _copied(weight: Tensor) -> Tensor:
    copied: Tensor = same_layout(weight) if _is_plain(weight) else weight.detach().clone()
    return copied


def _is_same(copy: Tensor | None, now: Tensor) -> bool:
    """Whether a copy is a tensor's as it is now, in its layout."""
    if copy is None or copy.dtype != now.dtype or copy.device != now.device:
        return False
    is_alike = copy.shape == now.shape and copy.stride() == now.stride()
    return is_alike and not _is_changed(copy, now)


def _is_changed(before: Tensor, after: Tensor) -> bool:
    """Whether values are others, bit by bit, but for a wider dtype. On the meta device there are none."""
    if before.shape != after.shape:
        return True
    if after.is_meta:
        return False
    now, then = after.detach(), before.detach().to(device=after.device, dtype=after.dtype)
    return not bool(((now == then) | ((now != now) & (then != then))).all())
