"""Operations that are whole layers: linear algebra, attention, normalisation, convolution."""

from __future__ import annotations

import math

import torch

from torchport.targets.candle import rust
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, call, code, optional, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import is_read, per_axis
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
    product = call("ops::matmul", e.ref(a[first]), e.ref(a[second]))
    alpha, beta = a["alpha"], a["beta"]
    if alpha != 1:
        product = code("({} * {})?", product, e.slot(alpha, "alpha", "f64"))
    if beta == 0:
        a.ignore("self")
        return product
    addend = e.ref(a["self"])
    if beta != 1:
        addend = code("&({} * {})?", e.operand(a["self"]), e.slot(beta, "beta", "f64"))
    return product.method("broadcast_add", addend)


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


def _weight_and_bias(e: Emitter, a: Args) -> list[Code]:
    return [e.optional_ref(a[name]) for name in ("weight", "bias")]


def _eps(e: Emitter, a: Args) -> Code:
    return e.slot(a["eps"], "eps", "f64")


@op("aten.layer_norm.default")
def layer_norm(e: Emitter, a: Args) -> Code:
    a.ignore("cudnn_enable")
    rank = len(a["normalized_shape"])
    affine = _weight_and_bias(e, a)
    return call("ops::layer_norm", e.ref(a["input"]), rank, *affine, _eps(e, a))


@op("aten.rms_norm.default")
def rms_norm(e: Emitter, a: Args) -> Code:
    rank, eps = len(a["normalized_shape"]), a["eps"]
    if eps is None:
        eps = torch.finfo(getattr(torch, e.meta(a["input"]).dtype)).eps
    weight, number = e.optional_ref(a["weight"]), e.slot(eps, "eps", "f64")
    return call("ops::rms_norm", e.ref(a["input"]), rank, weight, number)


@op("aten.group_norm.default")
def group_norm(e: Emitter, a: Args) -> Code:
    a.ignore("cudnn_enabled")
    groups, eps = e.slot(a["num_groups"], "num_groups"), _eps(e, a)
    affine = _weight_and_bias(e, a)
    return call("ops::group_norm", e.ref(a["input"]), groups, *affine, eps)


@op("aten.instance_norm.default")
def instance_norm(e: Emitter, a: Args) -> Code:
    a.ignore("cudnn_enabled", "momentum", "running_mean", "running_var")
    affine = _weight_and_bias(e, a)
    eps = _eps(e, a)
    if not a["use_input_stats"]:
        statistics = [e.ref(a["running_mean"]), e.ref(a["running_var"])]
        return call("ops::batch_norm", e.ref(a["input"]), *statistics, *affine, eps)
    channels = e.size(e.meta(a["input"]).shape[1])
    return call("ops::group_norm", e.ref(a["input"]), channels, *affine, eps)


@op("aten._native_batch_norm_legit_no_training.default")
def batch_norm(e: Emitter, a: Args) -> list[Code]:
    a.ignore("momentum")
    statistics = [e.ref(a["running_mean"]), e.ref(a["running_var"])]
    affine = _weight_and_bias(e, a)
    eps = _eps(e, a)
    return [call("ops::batch_norm", e.ref(a["input"]), *statistics, *affine, eps)]


@op("aten._native_batch_norm_legit.no_stats")
def batch_norm_of_batch(e: Emitter, a: Args) -> list[Code]:
    a.ignore("training", "momentum")
    e.name_if_expression(a["input"])
    x = e.ref(a["input"])
    others = slice_of(dim for dim in range(e.meta(a["input"]).rank) if dim != 1)
    mean, variance = call("ops::mean", x, others, False), call("ops::var", x, others, "0.0", False)
    affine = _weight_and_bias(e, a)
    return [call("ops::batch_norm", x, mean.borrowed, variance.borrowed, *affine, _eps(e, a))]


def numbers(e: Emitter, values: list[int], role: str) -> Code:
    """Numbers of one role as a `&[usize]`."""
    return slice_of([e.slot(value, role) for value in values])


@op("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(e: Emitter, a: Args) -> Code:
    count = e.meta(a["weight"]).rank - 2
    options = [numbers(e, per_axis(a[name], count), name) for name in ("stride", "padding", "dilation")]
    groups = e.slot(a["groups"], "groups")
    return call("ops::conv", *_conv_tensors(e, a), *options, groups)


def _conv_tensors(e: Emitter, a: Args) -> list[Code]:
    return [e.ref(a["input"]), e.ref(a["weight"]), e.optional_ref(a["bias"])]


@op("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_padding(e: Emitter, a: Args) -> Code:
    kernel = [size for size in e.meta(a["weight"]).shape[2:] if isinstance(size, int)]
    if len(kernel) != e.meta(a["weight"]).rank - 2:
        raise Unsupported("its kernel has a free size")
    stride, dilation = (per_axis(a[name], len(kernel)) for name in ("stride", "dilation"))
    total = [d * (k - 1) if a["padding"] == "same" else 0 for d, k in zip(dilation, kernel, strict=True)]
    x, weight, bias = _conv_tensors(e, a)
    if any(t % 2 for t in total):
        widths = slice_of(w for t in reversed(total) for w in (t // 2, t - t // 2))
        x = call("ops::pad", x, widths, "ops::PadMode::Constant(0.0)").borrowed
        total = [0] * len(total)
    options = [slice_of(values) for values in (stride, [t // 2 for t in total], dilation)]
    return call("ops::conv", x, weight, bias, *options, e.slot(a["groups"], "groups"))


@op("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose(e: Emitter, a: Args) -> Code:
    count = e.meta(a["weight"]).rank - 2
    stride, padding, output_padding, dilation = (
        numbers(e, per_axis(a[name], count), name)
        for name in ("stride", "padding", "output_padding", "dilation")
    )
    options = [stride, padding, output_padding, e.slot(a["groups"], "groups"), dilation]
    return call("ops::conv_transpose", *_conv_tensors(e, a), *options)
