"""Products of tensors: linear algebra, distances and attention."""

from __future__ import annotations

import math

from torchport.targets.candle import rust
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, call, optional, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import is_read, number
from torchport.targets.candle.registry import op, rows

rows(
    {
        "aten.linear.default": "ops::linear({input}, {weight}, {bias:opt})?",
        "aten.matmul.default": "ops::matmul({self}, {other})?",
        "aten.mm.default": "ops::matmul({self}, {mat2})?",
        "aten.bmm.default": "ops::matmul({self}, {mat2})?",
        "aten.mv.default": "ops::matmul({self}, {vec})?",
        "aten.dot.default": "ops::matmul({self}, {tensor})?",
    }
)


def _combined(e: Emitter, a: Args, first: str, second: str) -> Code:
    """beta · self + alpha · (first @ second)."""
    factors = [number(e, a[name], name) for name in ("beta", "alpha")]
    return call("ops::addmm", e.ref(a["self"]), e.ref(a[first]), e.ref(a[second]), *factors)


@op("aten.addmm.default")
def addmm(e: Emitter, a: Args) -> Code:
    return _combined(e, a, "mat1", "mat2")


@op("aten.baddbmm.default")
def baddbmm(e: Emitter, a: Args) -> Code:
    return _combined(e, a, "batch1", "batch2")


@op("aten.addmv.default")
def addmv(e: Emitter, a: Args) -> Code:
    return _combined(e, a, "mat", "vec")


@op("aten._trilinear.default")
def trilinear(e: Emitter, a: Args) -> Code:
    """The product of three tensors, to each of which axes are added first, summed over some axes."""
    a.ignore("unroll_dim")  # the order of the work, which does not change the result
    factors = []
    for index in (1, 2, 3):
        factor = e.receiver(a[f"i{index}"])
        for dim in sorted(a[f"expand{index}"]):
            factor = factor.method("unsqueeze", dim)
        factors.append(factor.borrowed)
    product = call("ops::mul", call("ops::mul", factors[0], factors[1]).borrowed, factors[2])
    return call("ops::sum", product.borrowed, slice_of(sorted(a["sumdim"])), False)


@op("aten._cdist_forward.default")
def cdist(e: Emitter, a: Args) -> Code:
    a.ignore("compute_mode")  # whether by products of matrices, which does not change the result
    rank = e.meta(a["x1"]).rank
    rows, columns = e.receiver(a["x1"]), e.receiver(a["x2"])
    rows, columns = rows.method("unsqueeze", rank - 1), columns.method("unsqueeze", rank - 2)
    return _norm(call("ops::sub", rows.borrowed, columns.borrowed).borrowed, a["p"], [rank], keep=False)


@op("aten._weight_norm_interface.default")
def weight_norm(e: Emitter, a: Args) -> list[Code]:
    if is_read(e, a, 1):
        raise Unsupported("its norms are read")
    e.name_if_expression(a["v"])
    direction, size = e.ref(a["v"]), e.ref(a["g"])
    return [call("ops::mul", direction, call("ops::div", size, _norms(e, a, 2).borrowed).borrowed)]


@op("aten.norm_except_dim.default")
def norm_except_dim(e: Emitter, a: Args) -> Code:
    return _norms(e, a, a["pow"])


def _norms(e: Emitter, a: Args, order: float) -> Code:
    """The norm of every slice of `v` along one axis."""
    rank = e.meta(a["v"]).rank
    if a["dim"] == -1:  # here it does not mean the last axis
        return _norm(e.ref(a["v"]), order, list(range(rank)), keep=False)
    return _norm(e.ref(a["v"]), order, [dim for dim in range(rank) if dim != a["dim"]], keep=True)


def _norm(x: Code, order: float, axes: list[int], *, keep: bool) -> Code:
    return call("ops::norm", x, rust.float_literal(float(order)), slice_of(axes), keep)


@op("aten.scaled_dot_product_attention.default")
def sdpa(e: Emitter, a: Args) -> Code:
    if a["dropout_p"]:
        raise Unsupported("dropout is active")
    tensors = [e.ref(a[name]) for name in ("query", "key", "value")]
    mask = e.optional_ref(a["attn_mask"])
    width = e.meta(a["query"]).shape[-1]
    usual = a["scale"] is None or (
        isinstance(width, int) and math.isclose(a["scale"], width**-0.5, rel_tol=1e-15)
    )
    scale = optional(None if usual else e.slot(a["scale"], "scale", "f64"))
    return call("ops::sdpa", *tensors, mask, a["is_causal"], scale, a["enable_gqa"])
