"""Rows for operations that fold axes away or run along one: sums, extremes, sorting, softmax."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .table import INF, NAN, Table, bools, ints, randn, special, uniform, values

table = Table("reduce")
row = table.op

F64, F16, BF16 = torch.float64, torch.float16, torch.bfloat16
I32, U8 = torch.int32, torch.uint8
_TIES = values(
    [[3.0, 1.0, 3.0, 2.0, 1.0, 2.0], [NAN, 1.0, 5.0, NAN, 0.0, -0.0], [INF, -INF, 0.0, INF, -INF, 1.0]]
)
_INT_TIES = values([[3, 1, 3, 2, 1, 2], [5, 1, 5, 0, 0, 1], [-1, -9, 0, 4, 4, -9]])

# sums and products
row("sum_all", torch.sum, randn(3, 4, 5))
row("sum_negative_dims", lambda x: (x.sum(-1), x.sum((-1, 0)), x.sum((0, -2), keepdim=True)), randn(3, 4, 5))
row("sum_no_dims", lambda x: (x.sum(dim=None), x.sum(dim=()), x.sum(dim=[], keepdim=True)), randn(3, 4, 5))
row("sum_first", lambda x: x.sum(0), randn(40, 300))
row("sum_million_tenths", torch.sum, lambda _: torch.full((1_000_000,), 0.1))
row("mean_million_tenths", lambda x: x.mean(0), lambda _: torch.full((500_000, 2), 0.1))
row("sum_bfloat16", lambda x: (x.sum(), x.sum(0), x.mean(-1)), uniform(0.0, 1.0, 64, 64, dtype=BF16))
row("sum_ones_bfloat16", torch.sum, lambda _: torch.ones(4096, dtype=BF16))
row("sum_ones_float16", lambda x: (x.sum(), x.mean()), lambda _: torch.ones(4096, dtype=F16))
row("sum_float64", lambda x: (x.sum(), x.sum(1), x.mean(0)), randn(9, 9, dtype=F64))
row("sum_bool", lambda x: (x.sum(), x.sum(-1)), lambda _: torch.ones(3, 300, dtype=torch.bool))
row("sum_uint8", lambda x: (x.sum(), x.sum(0, keepdim=True)), lambda _: torch.full((300, 2), 200, dtype=U8))
row(
    "sum_int",
    lambda x: (x.sum(), x.sum(-1), x.sum(0, dtype=I32), x.sum(dtype=torch.float32)),
    ints(-9, 9, 4, 5),
)
row("sum_int32", lambda x: (x.sum(), x.prod(1)), ints(-9, 9, 4, 5, dtype=I32))
row("sum_dtype", lambda x: (x.sum(dtype=F64), x.mean(0, dtype=F64), x.sum(0, dtype=BF16)), randn(4, 5))
row("sum_infinite", lambda x: (x[:, 1:].sum(1), x.mean(0)), special())
row("sum_zero_dim", lambda x: (x.sum(), x.mean(), x.sum(-1), x.prod(), x.amax()), randn())
row("sum_empty", lambda x: (x.sum(), x.sum(1), x.prod(), x.sum(0)), randn(3, 0))
row("sum_not_contiguous", lambda x: (x.transpose(0, 2).sum(1), x[:, ::2].sum(-1)), randn(3, 4, 5))
row("sum_expanded", lambda x: x.expand(7, 4, 5).sum((0, 2)), randn(4, 1))
row("mean", lambda x: (x.mean(), x.mean(-1), x.mean((0, 2), keepdim=True), x.mean(dim=None)), randn(3, 4, 5))
row("mean_of_int", lambda x: (x.mean(dtype=torch.float32), x.float().mean(0)), ints(-9, 9, 4, 5))
row("prod", lambda x: (x.prod(), x.prod(-1), x.prod(0, keepdim=True)), randn(4, 5))
row("prod_int", lambda x: (x.prod(), x.prod(0), x.prod(1, dtype=torch.float32)), ints(1, 5, 4, 5))
row("count_nonzero", lambda x: (torch.count_nonzero(x), torch.count_nonzero(x, dim=0)), ints(0, 2, 4, 5))

# spread and norms
row(
    "var", lambda x: (x.var(), x.var(-1), x.var((0, 1), keepdim=True), x.var(0, correction=0)), randn(3, 4, 5)
)
row(
    "std",
    lambda x: (x.std(), x.std(-1, unbiased=False), x.std((0, -1)), x.std(0, correction=2)),
    randn(3, 4, 5),
)
row("var_far_from_zero", lambda x: x.add(1e4).var(-1), randn(6, 50))
row("var_bfloat16", lambda x: (x.var(-1), x.std()), randn(20, 20, dtype=BF16))
row(
    "var_mean",
    lambda x: (*torch.var_mean(x, -1), *torch.std_mean(x, 0, keepdim=True, correction=0)),
    randn(4, 5),
)
row("var_mean_all", lambda x: (*torch.var_mean(x), *torch.std_mean(x)), randn(4, 5))
for order in (0, 1, 2, 3, 0.5, INF, -INF):
    label = str(order).replace("-", "minus_").replace(".", "_")
    row(
        f"norm_{label}",
        lambda x, p=order: (torch.linalg.vector_norm(x, p), x.norm(p, dim=-1, keepdim=True)),
        randn(4, 5),
    )
row("norm_dims", lambda x: (x.norm(), x.norm(dim=(0, 2)), torch.linalg.norm(x, dim=1)), randn(3, 4, 5))
row("norm_float16", lambda x: x.norm(dim=-1), randn(4, 500, dtype=F16, scale=20.0))
row("matrix_norm", torch.linalg.matrix_norm, randn(3, 4, 5))
row("norm_dtype", lambda x: torch.linalg.vector_norm(x, dtype=F64), randn(4, 5))
row("normalize", lambda x: (F.normalize(x), F.normalize(x, p=1.0, dim=0)), randn(4, 5))
row("cosine_similarity", F.cosine_similarity, randn(4, 5), randn(4, 5))
row("pairwise_distance", F.pairwise_distance, randn(4, 5), randn(4, 5))
row(
    "losses",
    lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y)),
    randn(4, 5),
    randn(4, 5),
)

# extremes
row("amax_dims", lambda x: (x.amax(), x.amax(-1), x.amin((0, -1)), x.amin(1, keepdim=True)), randn(3, 4, 5))
row("amax_nan", lambda x: (x.amax(-1), x.amin(-1), x.amax(0), x.amin(0)), _TIES)
row("amax_int", lambda x: (x.amax(-1), x.amin(0), x.max(), x.min()), _INT_TIES)
row("max_bool", lambda x: (x.max(), x.amin(0), x.any(-1)), bools(4, 5))
row("max_dim", lambda x: (*x.max(-1), *x.min(0, keepdim=True)), _TIES)
row("max_dim_int", lambda x: (*x.max(0), *x.min(-1)), _INT_TIES)
row(
    "max_dim_values_only",
    lambda x: (x.max(-1).values, x.min(-2)[1], x.max(0, keepdim=True)[0]),
    randn(3, 4, 5),
)
row("max_dim_bfloat16", lambda x: (*x.max(-1), x.amin()), randn(4, 9, dtype=BF16))
row("max_zero_dim", lambda x: (*x.max(0), x.argmax(), x.argmin(-1)), randn())
row("argmax", lambda x: (x.argmax(), x.argmax(-1), x.argmin(0, keepdim=True), x.argmin()), _TIES)
row("argmax_int", lambda x: (x.argmax(), x.argmax(-1), x.argmin(0), x.argmin(1, keepdim=True)), _INT_TIES)
row("argmax_all_keepdim", lambda x: (x.argmax(keepdim=True), x.argmin(keepdim=True)), randn(3, 4))
row("aminmax", lambda x: (*torch.aminmax(x), *torch.aminmax(x, dim=-1)), randn(4, 5))
row("any_all", lambda x: (x.any(), x.all(), x.any(-1), x.all(0), x.any(0, keepdim=True)), bools(4, 5))
row("any_all_dims", lambda x: (x.any((0, 2)), x.all((0, -1), keepdim=True)), bools(3, 4, 5))
row("any_all_numbers", lambda x, y: (x.any(-1), x.all(), y.all(0), y.any()), special(), ints(0, 2, 4, 5))
row(
    "any_empty",
    lambda x: (x.any(), x.all(), x.any(0), x.all(1)),
    lambda _: torch.zeros(3, 0, dtype=torch.bool),
)

# along an axis
row("cumsum", lambda x: (x.cumsum(0), x.cumsum(-1)), randn(4, 500))
row(
    "cumsum_infinite",
    lambda x: (x.cumsum(-1), x.cumprod(0)),
    values([[1.0, INF, 2.0, 3.0], [1.0, 2.0, NAN, 4.0]]),
)
row("cumsum_int", lambda x: (x.cumsum(0), x.cumprod(-1), x.cumsum(1, dtype=torch.float32)), ints(-3, 4, 4, 5))
row("cumsum_int32", lambda x: (x.cumsum(0), x.cumsum(-1, dtype=I32)), ints(-3, 4, 4, 5, dtype=I32))
row("cumsum_bool", lambda x: (x.cumsum(-1), x.cumsum(0)), bools(4, 5))
row("cumsum_bfloat16", lambda x: (x.cumsum(-1), x.cumprod(0)), uniform(0.5, 1.5, 4, 60, dtype=BF16))
row("cumsum_zero_dim", lambda x: (x.cumsum(0), x.cumprod(-1)), randn())
row("cumsum_float64", lambda x: (x.cumsum(-1), x.cumsum(0, dtype=torch.float32)), randn(4, 5, dtype=F64))
row("softmax", lambda x: (x.softmax(-1), x.softmax(0), x.softmax(1)), randn(3, 4, 5, scale=3.0))
row(
    "softmax_masked",
    lambda x: (x.softmax(-1), x.log_softmax(-1)),
    values([[1.0, -INF, 2.0], [0.5, 0.5, -INF], [9.0, NAN, 1.0]]),
)
row(
    "softmax_dtype",
    lambda x: (x.softmax(-1, dtype=torch.float32), x.log_softmax(0, dtype=F64)),
    randn(4, 5, dtype=BF16),
)
row(
    "softmax_half",
    lambda x, y: (x.softmax(-1), y.softmax(-1), y.log_softmax(-1)),
    randn(4, 9, dtype=F16),
    randn(4, 9, dtype=BF16),
)
row("softmax_float64", lambda x: (x.softmax(-1), x.log_softmax(0)), randn(4, 5, dtype=F64))
row("softmax_zero_dim", lambda x: (x.softmax(0), x.log_softmax(-1), x.exp()), randn())
row("softmax_empty", lambda x, y: (x.softmax(-1), x.log_softmax(0), y.softmax(0)), randn(0, 3), randn(3))
row("softmax_large", lambda x: (x.softmax(-1), x.log_softmax(-1)), randn(4, 9, scale=300.0))
row("softmax_kernels", lambda x: (torch._softmax(x, -1, False), torch._log_softmax(x, 0, False)), randn(4, 5))
row("log_softmax", lambda x: (x.log_softmax(-1), x.log_softmax(1), F.softmin(x, -1)), randn(3, 4, 5))
row("logsumexp", lambda x: (x.logsumexp(-1), x.logsumexp((0, 1), keepdim=True)), randn(3, 4, 5, scale=9.0))
row(
    "logsumexp_infinite",
    lambda x: x.logsumexp(-1),
    values([[1.0, -INF], [-INF, -INF], [INF, 1.0], [NAN, 1.0]]),
)
row("logsumexp_int", lambda x: x.logsumexp(0), ints(-3, 4, 4, 5))
row("sort", lambda x: (*x.sort(-1), *x.sort(0, descending=True)), randn(4, 9))
row(
    "sort_ties_stable",
    lambda x: (*x.sort(dim=-1, stable=True), *x.sort(dim=-1, descending=True, stable=True)),
    _TIES,
)
row(
    "sort_int",
    lambda x: (x.sort(-1).values, x.sort(0, descending=True).values, *x.sort(dim=1, stable=True)),
    _INT_TIES,
)
row("sort_bool", lambda x: x.sort(dim=-1, stable=True), bools(4, 5))
row("sort_bfloat16", lambda x: x.sort(dim=-1, stable=True), randn(4, 9, dtype=BF16))
row("sort_zero_dim", lambda x: (*x.sort(), x.argsort()), randn())
row(
    "argsort",
    lambda x: (x.argsort(), x.argsort(0, descending=True), x.argsort(dim=-1, stable=True)),
    randn(4, 9),
)
row("topk", lambda x: (*x.topk(3), *x.topk(2, dim=0, largest=False)), randn(4, 9))
row("topk_nan", lambda x: (x.topk(4).values, x.topk(4, largest=False).values), _TIES)
row("topk_int", lambda x: (x.topk(2).values, x.topk(2, dim=0, largest=False).values), _INT_TIES)
row("topk_all", lambda x: (*x.topk(9, sorted=True), *x.topk(1, dim=-2)), randn(4, 9))
row("diff", lambda x: (x.diff(), x.diff(dim=0), x.diff(dim=0, prepend=x[:1], append=x[-1:])), randn(4, 9))
row("diff_twice", lambda x: (x.diff(n=2), x.diff(n=3, dim=0)), randn(5, 9))
row(
    "diff_other_dtypes",
    lambda x, y, z: (x.diff(), y.diff(dim=0), z.diff()),
    ints(-9, 9, 4, 5),
    bools(4, 5),
    ints(0, 256, 9, dtype=U8),
)
