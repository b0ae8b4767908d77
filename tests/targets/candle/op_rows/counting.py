"""Rows for counts, ranks and running extremes, with ties, NaN, and numbers on the edges of bins."""

from __future__ import annotations

import torch

from .table import INF, NAN, Table, ints, randn, uniform, values

table = Table("counting")
row = table.op
_TIES = values([[2.0, 1.0, 2.0, 1.0, 3.0], [1.0, NAN, 3.0, NAN, 2.0], [-INF, INF, 0.0, INF, -0.0], [NAN] * 5])

row("histc", lambda x: (torch.histc(x, 7, -2.0, 2.0), torch.histc(x, 5), x.histc(3, 0, 0)), randn(200))
row("histc_edges", lambda x: torch.histc(x, 4, 0.0, 3.0), values([0.0, 0.75, 3.0, 1.5, 3.1, -0.1, 2.25]))
row(
    "histc_experts",
    lambda x: torch.histc(x, bins=8, min=0, max=7),
    lambda _: torch.tensor([0.0, 0, 2, 2, 2, 5, 7, 9]),
)
row("histc_same", lambda x: (x.histc(4), x[:0].histc(4)), lambda _: torch.ones(5))
row("histc_float64", lambda x: x.histc(9), randn(100, dtype=torch.float64))
row("cummax", lambda x: (*x.cummax(-1), *x.cummin(-1), *x.cummax(0), *x.cummin(0)), _TIES)
row("cummax_int", lambda x: (*x.cummax(0), *x.cummin(1)), ints(-3, 4, 5, 9))
row("cummax_zero_dim", lambda x: (*x.cummax(0), *x.cummin(-1)), randn())
row("logcumsumexp", lambda x: (x.logcumsumexp(-1), x.logcumsumexp(0)), randn(4, 50, scale=9.0))
row(
    "logcumsumexp_infinite",
    lambda x: x.logcumsumexp(-1),
    values([[-INF, 1.0, -INF], [INF, 1.0, 2.0], [1.0, NAN, 2.0]]),
)
row("kthvalue", lambda x: (*x.kthvalue(2), *x.kthvalue(3, 0, True)), randn(4, 9))
row("kthvalue_nan", lambda x: (x.kthvalue(2).values, x.kthvalue(5).values), _TIES)
row("median", lambda x: (*x.median(-1), *x.median(0, keepdim=True), x.median()), randn(5, 8))
row(
    "median_nan",
    lambda x: (x.median(-1).values, x.nanmedian(-1).values, torch.stack([x.median(), x.nanmedian()])),
    _TIES,
)
row("median_int", lambda x: (x.median(), x.median(0).values, x.nanmedian(1).values), ints(-9, 9, 5, 6))
row(
    "nanmedian",
    lambda x: (*x.nanmedian(-1), x.nanmedian()),
    values([[1.0, NAN, 3.0, 2.0], [NAN, 5.0, 4.0, 9.0]]),
)
row("mode", lambda x: (*x.mode(-1), *x.mode(0, keepdim=True)), ints(0, 4, 6, 11))
row(
    "mode_float",
    lambda x: (x.mode(-1).values, *x.mode(0)),
    values([[2.0, 1.0, 2.0], [1.0, 1.0, 2.0], [3.0, 0.0, 1.0]]),
)
row("repeat_each", lambda x: x.repeat_interleave(torch.tensor([2, 0, 3]), 1, output_size=5), randn(4, 3))
row("repeat_each_flat", lambda x: x.repeat_interleave(torch.tensor([1, 2, 0, 1]), output_size=4), randn(2, 2))
row(
    "searchsorted_sorter",
    lambda x, y: torch.searchsorted(x, y, sorter=x.argsort(), right=True),
    randn(9),
    randn(5),
)
row(
    "searchsorted_number",
    lambda x: (torch.searchsorted(x, 0.5), torch.bucketize(0.1, x, right=True)),
    values([-1.0, 0.1, 0.5, 2.0]),
)
row("quantile", lambda x: (torch.quantile(x, 0.3, 1), torch.nanquantile(x, 0.7, 0)), uniform(-1.0, 1.0, 5, 8))
