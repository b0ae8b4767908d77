"""Normalisation."""

from __future__ import annotations

import torch

from torchport.capture.torch_internals import eps_of_rms_norm
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, call, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.registry import op


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
        eps = eps_of_rms_norm(getattr(torch, e.meta(a["input"]).dtype))
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
