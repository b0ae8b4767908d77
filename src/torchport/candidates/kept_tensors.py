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
    known = [tensor for model in pair.models[1:] for tensor in _all_tensors(model)]
    names = [
        name
        for name, tensor in _kept(pair.reference.model)
        if not any(_is_equal(tensor, one) for one in known)
    ]
    kept = ", ".join(dict.fromkeys(names))
    return (
        [f"the reference keeps {kept} outside of its weights: in float64 its values are exact"]
        if kept
        else []
    )


def _kept(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors in attributes that have fewer digits than float64 and are no part of a weight, by name."""
    weights = {storage_id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    for path, module in model.named_modules():
        for attribute, tensors in tensors_held_by(module).items():
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
