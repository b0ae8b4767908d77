"""The forms that torch takes higher operations apart into: norms with their statistics, products, pooling."""

from __future__ import annotations

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, call, code, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import is_read, numbers, per_axis
from torchport.targets.candle.registry import Several, op


def _weight_and_bias(e: Emitter, a: Args) -> list[Code]:
    return [e.optional_ref(a[name]) for name in ("weight", "bias")]


def _spread(x: Code, axes: Code, eps: Code, keep: bool) -> list[Code]:
    """Mean and reciprocal standard deviation along axes."""
    variance = call("ops::var", x, axes, "0.0", keep)
    shifted = call("ops::add_scalar", variance.borrowed, eps)
    return [call("ops::mean", x, axes, keep), call("ops::rsqrt", shifted.borrowed)]


@op("aten.native_layer_norm.default")
def native_layer_norm(e: Emitter, a: Args) -> list[Code]:
    e.name_if_expression(a["input"])
    x, rank, normalised = e.ref(a["input"]), e.meta(a["input"]).rank, len(a["normalized_shape"])
    eps = e.slot(a["eps"], "eps", "f64")
    result = call("ops::layer_norm", x, normalised, *_weight_and_bias(e, a), eps)
    return [result, *_spread(x, slice_of(range(rank - normalised, rank)), eps, keep=True)]


@op("aten.native_group_norm.default")
def native_group_norm(e: Emitter, a: Args) -> list[Code]:
    a.ignore("C", "HxW")
    if 0 in e.meta(a["input"]).shape:
        raise Unsupported("of no elements")
    e.name_if_expression(a["input"])
    groups, eps = e.slot(a["group"], "num_groups"), e.slot(a["eps"], "eps", "f64")
    result = call("ops::group_norm", e.ref(a["input"]), groups, *_weight_and_bias(e, a), eps)
    rows = e.receiver(a["input"]).method("reshape", code("({}, {}, ())", e.size(a["N"]), groups))
    return [result, *_spread(rows.borrowed, slice_of([2]), eps, keep=False)]


@op("aten._native_batch_norm_legit_functional.default")
def batch_norm_in_training(e: Emitter, a: Args) -> Several:
    """Normalises by the batch's own statistics, and gives those that are kept for later as well."""
    if not a["training"]:
        raise Unsupported("it gives statistics that it does not compute")
    if e.meta(a["input"]).dtype not in ("float32", "float64") and any(is_read(e, a, i) for i in (1, 2)):
        raise Unsupported("its statistics are read in half precision")
    kept = [e.ref(a[name]) for name in ("running_mean", "running_var")]
    numbers_ = [e.slot(a[name], name, "f64") for name in ("momentum", "eps")]
    return Several(
        call("ops::batch_norm_in_training", e.ref(a["input"]), *_weight_and_bias(e, a), *kept, *numbers_)
    )


@op("aten.convolution.default")
def convolution(e: Emitter, a: Args) -> Code:
    count = e.meta(a["weight"]).rank - 2
    names = ("stride", "padding", "output_padding") if a["transposed"] else ("stride", "padding")
    options = [numbers(e, per_axis(a[name], count), name) for name in names]
    dilation = numbers(e, per_axis(a["dilation"], count), "dilation")
    tensors = [e.ref(a["input"]), e.ref(a["weight"]), e.optional_ref(a["bias"])]
    groups = e.slot(a["groups"], "groups")
    if a["transposed"]:
        return call("ops::conv_transpose", *tensors, *options, groups, dilation)
    a.ignore("output_padding")
    return call("ops::conv", *tensors, *options, dilation, groups)


@op("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool(e: Emitter, a: Args) -> Code:
    return call("ops::adaptive_avg_pool", e.ref(a["self"]), e.sizes_list(a["output_size"]))


@op("aten.var.dim")
def var(e: Emitter, a: Args) -> Code:
    rank = e.meta(a["self"]).rank
    dims = [dim % rank for dim in a["dim"]] if a["dim"] else range(rank)
    return call("ops::var", e.ref(a["self"]), slice_of(dims), "1.0" if a["unbiased"] else "0.0", a["keepdim"])


@op("aten.native_dropout.default")
def dropout(e: Emitter, a: Args) -> list[Code]:
    if a["train"] is not False and a["p"]:
        raise Unsupported("what it drops is random")
    a.ignore("p")
    x = e.receiver(a["input"])
    return [x.cloned, call("Tensor::ones", e.shape(a.output.shape), "DType::U8", code("{}.device()", x))]


@op("aten.addbmm.default")
def addbmm(e: Emitter, a: Args) -> Code:
    """beta · self + alpha · the sum of all products."""
    if a.output.dtype in ("int32", "uint8"):
        raise Unsupported(f"of {a.output.dtype}, which the runtime crate would add up in int64")
    product = call("ops::matmul", e.ref(a["batch1"]), e.ref(a["batch2"]))
    total = call("ops::sum", product.borrowed, slice_of([0]), False)
    factors = [e.slot(float(a[name]), name, "f64") for name in ("alpha", "beta")]
    scaled = call("ops::mul_scalar", total.borrowed, factors[0])
    if a["beta"] == 0:
        a.ignore("self")
        return scaled
    return call("ops::add", call("ops::mul_scalar", e.ref(a["self"]), factors[1]).borrowed, scaled.borrowed)
