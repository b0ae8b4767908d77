"""Rows for grouped products: experts with many rows, with one, with none, and rows that no expert takes."""

from __future__ import annotations

import torch
import transformers.integrations.moe

from .table import Table, randn, values

assert transformers.integrations.moe  # it registers the operation
table = Table("experts")
row = table.op
grouped = torch.ops.transformers.grouped_mm_fallback

row("some_empty", grouped, randn(9, 5), randn(4, 5, 6), values([3, 3, 8, 9], torch.int32))
row("first_and_last_empty", grouped, randn(4, 5), randn(4, 5, 3), values([0, 1, 4, 4], torch.int64))
row("one_takes_all", grouped, randn(7, 5), randn(3, 5, 6), values([0, 7, 7], torch.int32))
row("rows_behind", grouped, randn(7, 5), randn(2, 5, 6), values([2, 4], torch.int32))
row(
    "transposed",
    lambda x, w, e: grouped(x, w.mT, e),
    randn(7, 5),
    randn(3, 6, 5),
    values([2, 6, 7], torch.int32),
)
row(
    "grouped_bfloat16",
    lambda x, w, e: torch.nn.functional.grouped_mm(x, w, offs=e),
    randn(16, 16, dtype=torch.bfloat16),
    randn(3, 16, 8, dtype=torch.bfloat16),
    values([5, 5, 16], torch.int32),
)
