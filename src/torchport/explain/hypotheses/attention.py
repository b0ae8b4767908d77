"""The mask of an attention, or of a selection, is inverted, off by one, or another one altogether."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis


def wrong_mask(operation: BoundOperation) -> Iterator[Hypothesis]:
    for name in ("attn_mask", "mask", "condition"):
        mask = operation.get(name)
        if not isinstance(mask, torch.Tensor):
            continue
        if mask.dtype == torch.bool or name == "attn_mask":
            yield Hypothesis("mask", f"{name} is inverted", partial(_with_inverted, operation, name))
        if name == "attn_mask" and mask.ndim >= 2:
            for by in (1, -1):
                yield Hypothesis(
                    "causal", f"{name} is off by one", partial(_with_shifted, operation, name, by)
                )
    if operation.node.op == "aten.scaled_dot_product_attention.default" and operation["is_causal"]:
        for by in (1, -1):
            text = "the causal mask is off by one"
            yield Hypothesis("causal", text, partial(_with_diagonal_at, operation, by))


def _with_inverted(operation: BoundOperation, name: str) -> Any:
    mask: torch.Tensor = operation[name]
    if mask.dtype == torch.bool:
        return operation(**{name: ~mask})
    masked = mask < mask.amax()
    return operation(**{name: torch.where(masked, 0.0, mask.amin()).to(mask.dtype)})


def _with_shifted(operation: BoundOperation, name: str, by: int) -> Any:
    """Every row of the mask is where its neighbour was; the row at the border stays."""
    mask: torch.Tensor = operation[name]
    last = mask.shape[-2] - 1
    rows = (torch.arange(mask.shape[-2]) + by).clamp(0, last)
    return operation(**{name: mask.index_select(-2, rows)})


def _with_diagonal_at(operation: BoundOperation, by: int) -> Any:
    length, width = operation["query"].shape[-2], operation["key"].shape[-2]
    mask = torch.ones(length, width, dtype=torch.bool).tril(by)
    return operation(attn_mask=mask, is_causal=False)


def masked_otherwise(operation: BoundOperation) -> Iterator[Hypothesis]:
    """Another mask, which is read off the result: each element is either the one to keep or the one to fill in."""
    golden, observed = operation.result, operation.observed
    choices = _kept_and_filled(operation)
    if observed is None or choices is None or observed.shape != golden.shape:
        return
    kept, filled = (choice.broadcast_to(golden.shape) for choice in choices)
    is_filled = (observed - filled).abs() < (observed - kept).abs()
    was_filled = (golden - filled).abs() < (golden - kept).abs()
    more, less = int((is_filled & ~was_filled).sum()), int((was_filled & ~is_filled).sum())
    text = f"the mask is another: of {golden.numel()} elements it has {more} more and {less} fewer"
    yield Hypothesis("mask", text, partial(torch.where, is_filled, filled, kept))


def flags_differ(operation: BoundOperation) -> Iterator[Hypothesis]:
    """A mask that is another, however it came to be."""
    golden, observed = operation.result, operation.observed
    if not isinstance(golden, torch.Tensor) or golden.dtype != torch.bool or observed is None:
        return
    if observed.shape == golden.shape and observed.dtype == torch.bool:
        more, less = int((observed & ~golden).sum()), int((golden & ~observed).sum())
        text = f"the mask is another: of {golden.numel()} flags {more} more are set and {less} fewer"
        yield Hypothesis("mask", text, partial(torch.Tensor.clone, observed))


def _kept_and_filled(operation: BoundOperation) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The two values that a selection chooses from."""
    result = operation.result
    if not isinstance(result, torch.Tensor) or not result.is_floating_point():
        return None
    names = {"masked_fill": ("self", "value"), "where": ("self", "other")}.get(operation.short_name)
    if names is not None:
        kept, filled = (torch.as_tensor(operation[name], dtype=result.dtype) for name in names)
        return kept, filled
    scores, mask = operation.get("self"), operation.get("other")
    if operation.short_name != "add" or not isinstance(mask, torch.Tensor):
        return None
    least = mask.amin()
    if not isinstance(scores, torch.Tensor) or not bool(((mask == 0) | (mask == least)).all()):
        return None
    return scores, scores + least
