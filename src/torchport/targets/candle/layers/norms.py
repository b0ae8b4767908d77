"""Normalisation layers."""

from __future__ import annotations

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, tuple_of
from torchport.targets.candle.layers.table import LeafModule, NotALayer, RuntimeLayer, constructor, layer


@layer("normalization.LayerNorm")
def layer_norm(leaf: LeafModule) -> RuntimeLayer:
    a = leaf.args("aten.layer_norm.default")
    leaf.must_read_input(a, "input")
    if not leaf.has_weight(a, "weight"):
        suffix = "_no_affine"
    else:
        suffix = "" if leaf.has_weight(a, "bias") else "_no_bias"
    sizes, eps = _normalized_shape(leaf, a), leaf.number(a["eps"], "eps", "f64")
    return RuntimeLayer("LayerNorm", constructor(f"layer_norm{suffix}", sizes, eps))


@layer("normalization.RMSNorm")
def rms_norm(leaf: LeafModule) -> RuntimeLayer:
    a = leaf.args("aten.rms_norm.default")
    leaf.must_read_input(a, "input")
    leaf.weight(a, "weight")
    eps_of_float32 = 2.0**-23
    sizes = _normalized_shape(leaf, a)
    eps = leaf.number(eps_of_float32 if a["eps"] is None else a["eps"], "eps", "f64")
    return RuntimeLayer("RmsNorm", constructor("rms_norm", sizes, eps))


def _normalized_shape(leaf: LeafModule, a: Args) -> Code:
    return tuple_of([leaf.number(size, "normalized_shape") for size in a["normalized_shape"]])


@layer("normalization.GroupNorm")
def group_norm(leaf: LeafModule) -> RuntimeLayer:
    a = leaf.args("aten.group_norm.default")
    leaf.must_read_input(a, "input")
    if not leaf.has_weight(a, "bias"):
        raise NotALayer
    (channels,) = leaf.weight(a, "weight")
    groups = leaf.number(a["num_groups"], "num_groups")
    eps = leaf.number(a["eps"], "eps", "f64")
    return RuntimeLayer(
        "GroupNorm", constructor("group_norm", groups, leaf.number(channels, "num_channels"), eps)
    )


@layer("batchnorm.BatchNorm1d", "batchnorm.BatchNorm2d", "batchnorm.BatchNorm3d")
def batch_norm(leaf: LeafModule) -> RuntimeLayer:
    a = leaf.args("aten._native_batch_norm_legit_no_training.default")
    leaf.must_read_input(a, "input")
    (features,) = leaf.weight(a, "running_mean")
    leaf.weight(a, "running_var")
    suffix = "" if leaf.has_weight(a, "weight") and leaf.has_weight(a, "bias") else "_no_affine"
    if suffix and (a["weight"] is not None or a["bias"] is not None):
        raise NotALayer
    count, eps = leaf.number(features, "num_features"), leaf.number(a["eps"], "eps", "f64")
    return RuntimeLayer("BatchNorm", constructor(f"batch_norm{suffix}", count, eps))
