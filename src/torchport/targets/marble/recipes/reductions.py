"""Reductions: sums, means, extremes, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchport.targets.marble.composer import Composer, Operand, Value
from torchport.targets.marble.groups import Kind
from torchport.targets.marble.recipes.arithmetic import as_value
from torchport.targets.marble.recipes.registry import Recipe, recipe, rows, widened


def _reduction(work: str) -> Recipe:
    def made(c: Composer, self: Operand, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
        dims = None if dim is None or dim == [] else [dim] if isinstance(dim, int) else list(dim)
        return c.reduce(work, as_value(c, self), dims, keepdim, dtype)

    return made


for _work, _names in {
    "sum": "sum.default sum.dim_IntList",
    "mean": "mean.default mean.dim",
    "max": "amax.default max.default",
    "min": "amin.default min.default",
    "any": "any.default any.dim any.dims",
    "all": "all.default all.dim all.dims",
}.items():
    recipe(*(f"aten.{name}" for name in _names.split()))(_reduction(_work))


@recipe("aten.var.correction")
@widened
def var(
    c: Composer,
    self: Operand,
    dim: Sequence[int] | None = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value:
    return _variance(c, as_value(c, self), dim, correction, keepdim)


@recipe("aten.var.dim")
@widened
def var_of_axes(
    c: Composer, self: Operand, dim: Sequence[int] | None, unbiased: bool = True, keepdim: bool = False
) -> Value:
    return _variance(c, as_value(c, self), dim, int(unbiased), keepdim)


@recipe("aten.std.correction")
@widened
def std(
    c: Composer,
    self: Operand,
    dim: Sequence[int] | None = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value:
    return c.function("aten.sqrt.default", _variance(c, as_value(c, self), dim, correction, keepdim))


@recipe("aten.var_mean.correction")
@widened
def var_mean(
    c: Composer,
    self: Operand,
    dim: Sequence[int] | None = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> list[Value]:
    value = as_value(c, self)
    return [
        _variance(c, value, dim, correction, keepdim),
        c.reduce("mean", value, list(dim) if dim else None, keepdim),
    ]


@recipe("aten.std_mean.correction")
@widened
def std_mean(
    c: Composer,
    self: Operand,
    dim: Sequence[int] | None = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> list[Value]:
    value = as_value(c, self)
    spread = _variance(c, value, dim, correction, keepdim)
    mean = c.reduce("mean", value, list(dim) if dim else None, keepdim)
    return [c.function("aten.sqrt.default", spread), mean]


def _variance(
    c: Composer, value: Value, dim: Sequence[int] | None, correction: float | None, keepdim: bool
) -> Value:
    dims = list(dim) if dim else list(range(value.rank))
    centred = c.weighted((value, 1), (c.reduce("mean", value, dims, keepdim=True), -1))
    total = c.reduce("sum", c.product(centred, centred), dims, keepdim)
    count = 1
    for axis in dims:
        count *= value.shape[axis]
    left = count - (1 if correction is None else correction)
    return c.weighted((total, 1 / left if left > 0 else float("inf")))


@recipe("aten.logsumexp.default")
@widened
def logsumexp(c: Composer, self: Operand, dim: Sequence[int], keepdim: bool = False) -> Value:
    value = as_value(c, self)
    largest = c.reduce("max", value, dim, keepdim=True)
    # What is infinite cannot be taken from itself.
    finite = c.filled(largest, c.function("aten.isinf.default", largest), 0)
    powers = c.function("aten.exp.default", c.weighted((value, 1), (finite, -1)))
    total = c.function("aten.log.default", c.reduce("sum", powers, dim, keepdim=True))
    made = c.weighted((total, 1), (finite, 1))
    return made if keepdim else c.wire("aten.squeeze.dims", made, dim=list(dim))


rows(
    Kind.REDUCTION,
    [
        *(
            f"aten.{name}"
            for name in ["linalg_vector_norm.default", "norm.ScalarOpt_dim", "norm_except_dim.default"]
        ),
        *("aten._cdist_forward.default", "aten._pdist_forward.default", "aten.logcumsumexp.default"),
        *(f"aten._adaptive_avg_pool{n}d.default" for n in (2, 3)),
        *(f"aten.max_pool{n}d.default" for n in (1, 2, 3)),
        *(f"aten.adaptive_avg_pool{n}d.default" for n in (1, 2, 3)),
        *(f"aten.avg_pool{n}d.default" for n in (1, 2, 3)),
    ],
)
rows(
    Kind.PRODUCT,
    ["aten.prod.default", "aten.prod.dim_int", "aten.cumprod.default", "aten._trilinear.default"],
)
rows(
    Kind.WEIGHTED_SUM,
    [
        "aten.cumsum.default",
        "aten.col2im.default",
        "aten.diff.default",
        *(f"aten.upsample_{name}.vec" for name in ["linear1d", "bilinear2d", "bicubic2d", "trilinear3d"]),
    ],
)
