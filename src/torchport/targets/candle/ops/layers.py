"""Operations that are whole layers: linear algebra, attention, normalisation, convolution."""

from __future__ import annotations

import math
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.emit import Emitter, Unsupported
from torchport.targets.candle.registry import Args, named, op, rows, used

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


def _combined(e: Emitter, a: Args, first: str, second: str) -> str:
    """beta · self + alpha · (first @ second)."""
    product = f"ops::matmul({e.ref(a[first])}, {e.ref(a[second])})?"
    alpha, beta = a["alpha"], a["beta"]
    if alpha != 1:
        product = f"({product} * {e.slot(alpha, 'alpha', 'f64')})?"
    if beta == 0:
        a["self"]
        return product
    addend = e.ref(a["self"])
    if beta != 1:
        addend = f"&({e.operand(a['self'])} * {e.slot(beta, 'beta', 'f64')})?"
    return f"{product}.broadcast_add({addend})?"


@op("aten.addmm.default")
def addmm(e: Emitter, a: Args) -> str:
    return _combined(e, a, "mat1", "mat2")


@op("aten.baddbmm.default")
def baddbmm(e: Emitter, a: Args) -> str:
    return _combined(e, a, "batch1", "batch2")


@op("aten.addmv.default")
def addmv(e: Emitter, a: Args) -> str:
    return _combined(e, a, "mat", "vec")


@op("aten._trilinear.default")
def trilinear(e: Emitter, a: Args) -> str:
    """Three tensors with axes put in, multiplied, and summed over some axes."""
    factors = []
    for index in (1, 2, 3):
        text = e.receiver(a[f"i{index}"])
        factors.append(text + "".join(f".unsqueeze({dim})?" for dim in sorted(a[f"expand{index}"])))
    a["unroll_dim"]  # the order of the work, which does not change the result
    product = f"&ops::mul(&ops::mul(&{factors[0]}, &{factors[1]})?, &{factors[2]})?"
    return f"ops::sum({product}, &{sorted(a['sumdim'])}, false)?"


@op("aten._cdist_forward.default")
def cdist(e: Emitter, a: Args) -> str:
    a["compute_mode"]  # by products of matrices or not
    rank = e.meta(a["x1"]).rank
    rows, columns = e.receiver(a["x1"]), e.receiver(a["x2"])
    pairs = f"&ops::sub(&{rows}.unsqueeze({rank - 1})?, &{columns}.unsqueeze({rank - 2})?)?"
    return f"ops::norm({pairs}, {rust.float_literal(float(a['p']))}, &[{rank}], false)?"


@op("aten._weight_norm_interface.default")
def weight_norm(e: Emitter, a: Args) -> list[str]:
    if used(a, e, 1):
        raise Unsupported("its norms are read")
    named(e, a["v"])
    return [f"ops::mul({e.ref(a['v'])}, &ops::div({e.ref(a['g'])}, &{_norms(e, a, 2)})?)?"]


@op("aten.norm_except_dim.default")
def norm_except_dim(e: Emitter, a: Args) -> str:
    return _norms(e, a, a["pow"])


def _norms(e: Emitter, a: Args, order: float) -> str:
    """The norm of every slice along one axis."""
    rank = e.meta(a["v"]).rank
    if a["dim"] == -1:  # here it does not mean the last axis
        return f"ops::norm({e.ref(a['v'])}, {rust.float_literal(float(order))}, &{list(range(rank))}, false)?"
    others = [dim for dim in range(rank) if dim != a["dim"]]
    return f"ops::norm({e.ref(a['v'])}, {rust.float_literal(float(order))}, &{others}, true)?"


@op("aten.scaled_dot_product_attention.default")
def sdpa(e: Emitter, a: Args) -> str:
    if a["dropout_p"]:
        raise Unsupported("dropout is active")
    query, key, value = (e.ref(a[name]) for name in ("query", "key", "value"))
    mask = "None" if a["attn_mask"] is None else f"Some({e.ref(a['attn_mask'])})"
    width = e.meta(a["query"]).shape[-1]
    usual = a["scale"] is None or (
        isinstance(width, int) and math.isclose(a["scale"], width**-0.5, rel_tol=1e-15)
    )
    scale = "None" if usual else f"Some({e.slot(a['scale'], 'scale', 'f64')})"
    causal, grouped = ("true" if a[name] else "false" for name in ("is_causal", "enable_gqa"))
    return f"ops::sdpa({query}, {key}, {value}, {mask}, {causal}, {scale}, {grouped})?"


@op("aten.layer_norm.default")
def layer_norm(e: Emitter, a: Args) -> str:
    a["cudnn_enable"]
    rank = len(a["normalized_shape"])
    weight, bias = (_optional(e, a[name]) for name in ("weight", "bias"))
    return (
        f"ops::layer_norm({e.ref(a['input'])}, {rank}, {weight}, {bias}, {e.slot(a['eps'], 'eps', 'f64')})?"
    )


@op("aten.rms_norm.default")
def rms_norm(e: Emitter, a: Args) -> str:
    rank, eps = len(a["normalized_shape"]), a["eps"]
    if eps is None:
        eps = torch.finfo(getattr(torch, e.meta(a["input"]).dtype)).eps
    weight, number = _optional(e, a["weight"]), e.slot(eps, "eps", "f64")
    return f"ops::rms_norm({e.ref(a['input'])}, {rank}, {weight}, {number})?"


@op("aten.group_norm.default")
def group_norm(e: Emitter, a: Args) -> str:
    a["cudnn_enabled"]
    groups, eps = e.slot(a["num_groups"], "num_groups"), e.slot(a["eps"], "eps", "f64")
    weight, bias = (_optional(e, a[name]) for name in ("weight", "bias"))
    return f"ops::group_norm({e.ref(a['input'])}, {groups}, {weight}, {bias}, {eps})?"


@op("aten.instance_norm.default")
def instance_norm(e: Emitter, a: Args) -> str:
    a["cudnn_enabled"], a["momentum"]
    weight, bias = (_optional(e, a[name]) for name in ("weight", "bias"))
    eps = e.slot(a["eps"], "eps", "f64")
    if not a["use_input_stats"]:
        mean, variance = e.ref(a["running_mean"]), e.ref(a["running_var"])
        return f"ops::batch_norm({e.ref(a['input'])}, {mean}, {variance}, {weight}, {bias}, {eps})?"
    a["running_mean"], a["running_var"]
    channels = e.size(e.meta(a["input"]).shape[1])
    return f"ops::group_norm({e.ref(a['input'])}, {channels}, {weight}, {bias}, {eps})?"


@op("aten._native_batch_norm_legit_no_training.default")
def batch_norm(e: Emitter, a: Args) -> list[str]:
    a["momentum"]
    mean, variance = e.ref(a["running_mean"]), e.ref(a["running_var"])
    weight, bias = (_optional(e, a[name]) for name in ("weight", "bias"))
    eps = e.slot(a["eps"], "eps", "f64")
    return [f"ops::batch_norm({e.ref(a['input'])}, {mean}, {variance}, {weight}, {bias}, {eps})?"]


@op("aten._native_batch_norm_legit.no_stats")
def batch_norm_of_batch(e: Emitter, a: Args) -> list[str]:
    a["training"], a["momentum"]
    named(e, a["input"])
    x = e.ref(a["input"])
    others = [dim for dim in range(e.meta(a["input"]).rank) if dim != 1]
    mean, variance = f"&ops::mean({x}, &{others}, false)?", f"&ops::var({x}, &{others}, 0.0, false)?"
    weight, bias = (_optional(e, a[name]) for name in ("weight", "bias"))
    return [f"ops::batch_norm({x}, {mean}, {variance}, {weight}, {bias}, {e.slot(a['eps'], 'eps', 'f64')})?"]


def _optional(e: Emitter, arg: g.Ref | None) -> str:
    return "None" if arg is None else f"Some({e.ref(arg)})"


def per_axis(value: Any, count: int) -> list[int]:
    """torch lets one number stand for all axes."""
    items = list(value) if isinstance(value, list) else [value]
    return items * count if len(items) == 1 else items


def numbers(e: Emitter, values: list[int], role: str) -> str:
    return f"&[{', '.join(e.slot(value, role) for value in values)}]"


@op("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(e: Emitter, a: Args) -> str:
    axes_count = e.meta(a["weight"]).rank - 2
    stride, padding, dilation = (
        numbers(e, per_axis(a[name], axes_count), name) for name in ("stride", "padding", "dilation")
    )
    groups = e.slot(a["groups"], "groups")
    head = f"{e.ref(a['input'])}, {e.ref(a['weight'])}, {_optional(e, a['bias'])}"
    return f"ops::conv({head}, {stride}, {padding}, {dilation}, {groups})?"


@op("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_padding(e: Emitter, a: Args) -> str:
    kernel = [size for size in e.meta(a["weight"]).shape[2:] if isinstance(size, int)]
    if len(kernel) != e.meta(a["weight"]).rank - 2:
        raise Unsupported("its kernel has a free size")
    stride, dilation = (per_axis(a[name], len(kernel)) for name in ("stride", "dilation"))
    total = [d * (k - 1) if a["padding"] == "same" else 0 for d, k in zip(dilation, kernel, strict=True)]
    x = e.ref(a["input"])
    if any(t % 2 for t in total):
        widths = [w for t in reversed(total) for w in (t // 2, t - t // 2)]
        x, total = f"&ops::pad({x}, &{widths}, ops::PadMode::Constant(0.0))?", [0] * len(total)
    head = f"{x}, {e.ref(a['weight'])}, {_optional(e, a['bias'])}"
    padding = [t // 2 for t in total]
    return f"ops::conv({head}, &{stride}, &{padding}, &{dilation}, {e.slot(a['groups'], 'groups')})?"


@op("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose(e: Emitter, a: Args) -> str:
    count = e.meta(a["weight"]).rank - 2
    stride, padding, output_padding, dilation = (
        numbers(e, per_axis(a[name], count), name)
        for name in ("stride", "padding", "output_padding", "dilation")
    )
    groups = e.slot(a["groups"], "groups")
    head = f"{e.ref(a['input'])}, {e.ref(a['weight'])}, {_optional(e, a['bias'])}"
    return f"ops::conv_transpose({head}, {stride}, {padding}, {output_padding}, {groups}, {dilation})?"
