"""Tensors that the reference keeps in plain attributes, such as tables that an earlier call has computed."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from torchport.candidates.pair import ModelPair
from torchport.candidates.precision import NARROW
from torchport.capture.held_values import tensors_held_by
from torchport.capture.torch_internals import storage_id


def remarks_on_kept_tensors(pair: ModelPair) -> list[str]:
    """A remark that names the tensors which the reference keeps and no part of the candidate equals.

    In float64 they are as they were kept: a candidate that computes them itself is measured as if they were exact.
    """
    kept = list(_kept(pair.reference.model))
    if not kept:
        return []
    known = [tensor for model in pair.models[1:] for tensor in _all_tensors(model)]
    names = [name for name, tensor in kept if not any(_is_equal(tensor, one) for one in known)]
    if not names:
        return []
    listed = ", ".join(dict.fromkeys(names))
    return [f"the reference keeps {listed} outside of its weights: in float64 its values are exact"]


def _kept(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors in attributes that have fewer digits than float64 and are no part of a weight, by name."""
    held = [(path, tensors_held_by(module)) for path, module in model.named_modules()]
    if not any(by_attribute for _, by_attribute in held):
        return
    weights = {storage_id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    for path, by_attribute in held:
        for attribute, tensors in by_attribute.items():
            for tensor in tensors:
                is_plain = tensor.layout == torch.strided and not tensor.is_meta
                if is_plain and tensor.dtype in NARROW and storage_id(tensor) not in weights:
                    yield f"{path}.{attribute}".removeprefix("."), tensor


def _all_tensors(model: nn.Module) -> Iterator[Tensor]:
    yield from (*model.parameters(), *model.buffers())
    for module in model.modules():
        for tensors in tensors_held_by(module).values():
            yield from tensors


def _is_equal(one: Tensor, other: Tensor) -> bool:
    is_alike = one.shape == other.shape and one.dtype == other.dtype and one.device == other.device
    return is_alike and torch.equal(one, other)
