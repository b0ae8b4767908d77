"""The mask of an attention, or of a selection, is inverted or off by one."""

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
