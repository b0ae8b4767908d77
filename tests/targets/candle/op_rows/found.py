"""Rows whose sizes depend on data: what is found flows into sums, indices, further shapes and outputs."""

from __future__ import annotations

import torch

from .table import Table, bools, ints, randn, values

table = Table("found")
row = table.op

row(
    "nonzero",
    lambda x: (torch.nonzero(x), torch.nonzero(x).float().mean(0), x[torch.nonzero(x, as_tuple=True)]),
    bools(4, 5),
)
row("by_mask", lambda x: (x[x > 0], x[x > 0].sum(), x[x > 0].cumsum(0) * 2, x[x.sum(1) > 0]), randn(4, 5))
row(
    "by_mask_rows",
    lambda x, m: (x[m], x[:, m], x[m].mean(0), x[m] @ x[m].t()),
    randn(6, 6, scale=2.0),
    values([True, False, True, True, False, True]),
)
row("mask_of_all", lambda x: (x[x < 99].reshape(-1, 1), x[x > 99].sum()), randn(3, 4))
row(
    "masked_select", lambda x, m: (x.masked_select(m), x.masked_select(m[:1]).exp()), randn(4, 5), bools(4, 5)
)
row(
    "unique",
    lambda x: (torch.unique(x), *torch.unique(x, return_inverse=True, return_counts=True)),
    ints(0, 6, 4, 5),
)
row("unique_float", lambda x: torch.unique(x), values([2.0, 1.0, 2.0, 0.5, 1.0]))
row(
    "unique_consecutive",
    lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True),
    ints(0, 2, 20),
)
row(
    "bincount",
    lambda x, w: (torch.bincount(x), torch.bincount(x, minlength=12), torch.bincount(x, weights=w)),
    ints(0, 9, 30),
    randn(30),
)
row(
    "repeats",
    lambda x, n: (x.repeat_interleave(n, 0), torch.repeat_interleave(n)),
    randn(3, 4),
    values([2, 0, 3]),
)
row(
    "sizes_of_what_is_found",
    lambda x: (torch.ones(x[x > 0].shape[0], 2), torch.arange(x[x > 0].numel()), x[x > 0].new_zeros(3)),
    randn(4, 5),
)
row(
    "sizes_only",
    lambda x: (torch.ones(torch.unique(x).shape[0]), torch.zeros(torch.nonzero(x).shape[0], 2)),
    ints(0, 6, 4, 5),
)
