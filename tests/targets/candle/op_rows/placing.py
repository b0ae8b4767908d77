"""Rows for elements put where masks, positions, rows and diagonals say."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .table import Table, bools, ints, randn, values

table = Table("placing")
row = table.op

row("masked_scatter", lambda x, m, s: x.masked_scatter(m, s), randn(4, 5), bools(4, 5), randn(30))
row("masked_scatter_broadcast", lambda x, m, s: x.masked_scatter(m, s), randn(4, 5), bools(4, 1), randn(5, 6))
row("masked_scatter_none", lambda x, s: x.masked_scatter(x > 99, s), randn(4, 5), randn(3))
row(
    "put",
    lambda x, i, s: (x.put(i, s), x.put(i, s, accumulate=True)),
    randn(4, 5),
    values([0, 7, -1]),
    randn(3),
)
row("take", lambda x, i: (x.take(i), x.t().take(i)), randn(4, 5), values([[0, 7], [19, -1]]))
row(
    "nonzero_static",
    lambda x: (torch.nonzero_static(x, size=30), torch.nonzero_static(x, size=3, fill_value=9)),
    bools(4, 5),
)
row("pdist", lambda x: (F.pdist(x), F.pdist(x, 1.0), F.pdist(x, float("inf"))), randn(6, 3))
row("renorm", lambda x: (x.renorm(2, 0, 1.5), x.renorm(1, 1, 2.0), x.renorm(3, -1, 9.0)), randn(4, 5))
row(
    "index_reduce",
    lambda x, i, s: [x.index_reduce(0, i, s, how) for how in ("prod", "mean", "amax", "amin")],
    randn(5, 4),
    values([0, 2, 2, 4]),
    randn(4, 4),
)
row(
    "index_reduce_anew",
    lambda x, i, s: x.index_reduce(1, i, s, "mean", include_self=False),
    randn(3, 5),
    values([1, 1, 3]),
    randn(3, 3),
)
row(
    "scatter_reduced",
    lambda x, i, s: (
        x.scatter(0, i, s, reduce="add"),
        x.scatter(1, i, s, reduce="multiply"),
        x.scatter(0, i, 2.5, reduce="multiply"),
        x.scatter(0, i, 3, reduce="add"),
    ),
    randn(5, 5),
    ints(0, 5, 4, 5),
    randn(5, 5),
)
row(
    "diagonal_scatter",
    lambda x, s: (torch.diagonal_scatter(x, s), torch.diagonal_scatter(x.t(), s, -1)),
    randn(4, 5),
    randn(4),
)
row(
    "diagonal_scatter_batch", lambda x, s: torch.diagonal_scatter(x, s, -1, 2, 1), randn(3, 4, 4), randn(3, 3)
)
row(
    "triangle_indices",
    lambda x: (torch.tril_indices(3, 4, -1), torch.triu_indices(4, 3, 1, dtype=torch.int32), x),
    randn(2),
)
row(
    "bincounted",
    lambda x: torch.zeros(9, dtype=torch.int64).scatter_add(0, x, torch.ones_like(x)),
    ints(0, 9, 30),
)
row("narrow_copy", lambda x: (torch.narrow_copy(x, 0, 1, 2), torch.narrow_copy(x, 1, -3, 2)), randn(4, 5))
row(
    "as_strided",
    lambda x: (
        x.as_strided((2, 3), (5, 1)),
        x.as_strided((3, 2, 2), (4, 1, 2), 3),
        x.t().contiguous().as_strided((4, 2), (1, 6)),
        x.t().relu().as_strided((4, 2), (1, 6)),
        x.mul(2).t().as_strided((2, 4), (1, 3)),
    ),
    randn(4, 5),
)
row("empty_strided", lambda x: torch.empty_strided((2, 3), (3, 1)).zero_() + x, randn(3))
