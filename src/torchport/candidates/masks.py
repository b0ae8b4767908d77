"""Masks of attention that mean the same in another form: bools against numbers that are added to scores."""

from __future__ import annotations

import torch
from torch import Tensor

_EXCLUDES = -1e4
"""What is added to a score that is not to count is at most this."""


def is_same_mask(golden: Tensor, candidate: Tensor) -> bool:
    """Whether two tensors are masks in different forms that let the same places through."""
    if not _may_be_masks(golden, candidate):
        return False
    allowed, others = _allowed(golden, candidate), _allowed(candidate, golden)
    return allowed is not None and others is not None and torch.equal(allowed, others.to(allowed.device))


def in_form_of(model: Tensor, mask: Tensor) -> Tensor:
    """A mask in the form of another; the tensor as it is, if these are not two masks in different forms.

    Where a mask of numbers excludes a place as the other does, it has the other's number.
    """
    if not _may_be_masks(model, mask):
        return mask
    allowed, others = _allowed(mask, model), _allowed(model, mask)
    if allowed is None or others is None:
        return mask
    allowed, others = allowed.to(model.device), others.to(model.device)
    if model.dtype == torch.bool:
        return allowed if torch.equal(others, model) else ~allowed
    least = torch.full_like(model, torch.finfo(model.dtype).min)
    return torch.where(allowed, torch.zeros_like(model), torch.where(others, least, model))


def _may_be_masks(one: Tensor, other: Tensor) -> bool:
    """Whether one of two tensors is of bools and the other is not, so that they may be masks of different forms."""
    return (one.dtype == torch.bool) != (other.dtype == torch.bool)


def _allowed(mask: Tensor, other: Tensor) -> Tensor | None:
    """The places that a mask lets through, if it and the other are masks of different forms.

    Whether True lets a place through or excludes it is told by the other mask: the meaning with which more agree.
    """
    if mask.shape != other.shape or mask.numel() == 0:
        return None
    if mask.dtype == torch.bool and other.is_floating_point():
        added = _allowed_by_numbers(other)
        if added is None:
            return None
        agreeing = int((mask == added.to(mask.device)).sum())
        return mask if 2 * agreeing >= mask.numel() else ~mask
    if other.dtype == torch.bool and mask.is_floating_point():
        return _allowed_by_numbers(mask)
    return None


def _allowed_by_numbers(mask: Tensor) -> Tensor | None:
    allowed = mask == 0
    return allowed if bool((allowed | (mask <= _EXCLUDES)).all()) else None
