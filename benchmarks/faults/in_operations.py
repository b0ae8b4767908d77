"""Faults in small operations: arithmetic, activations, masks, axes, sizes."""

from __future__ import annotations

from torchport.capture.graph import Dtype, Node, Ref, TensorMeta

from .in_layers import CONVOLUTIONS, fault, grown
from .rewrite import Place

_OTHER_ACTIVATION = {
    "relu": "aten.leaky_relu.default",
    "gelu": "aten.relu.default",
    "silu": "aten.gelu.default",
    "tanh": "aten.sigmoid.default",
    "sigmoid": "aten.hardsigmoid.default",
    "hardswish": "aten.silu.default",
    "hardsigmoid": "aten.sigmoid.default",
}


@fault("activation")
def another_activation(place: Place) -> list[Node] | None:
    other = _OTHER_ACTIVATION.get(place.op)
    return place.instead(other, place["self"]) if other else None


@fault("gelu for gelu-tanh")
def gelu(place: Place) -> list[Node] | None:
    if place.op != "gelu":
        return None
    return place.changed(approximate="none" if place["approximate"] == "tanh" else "tanh")


@fault("residual dropped")
def residual_dropped(place: Place) -> list[Node] | None:
    """A sum of two activations of one shape becomes the one that was computed last."""
    if place.op != "add" or not (place.is_float(place["self"]) and place.is_float(place["other"])):
        return None
    terms = [place["self"], place["other"]]
    if any(place.weight(term) or place.meta(term).shape != place.output.shape for term in terms):
        return None
    names = [node.name for node in place.module.nodes]
    latest = max(terms, key=lambda ref: names.index(ref.name) if ref.name in names else -1)
    return place.instead("aten.clone.default", latest)


@fault("wrong axis")
def another_axis(place: Place) -> list[Node] | None:
    """The axis before the right one, or the one after where there is none before."""
    if place.op in ("mean", "sum", "amax", "amin") and place["dim"] and place.is_float(place["self"]):
        rank = place.meta(place["self"]).rank
        axes = sorted(axis % rank for axis in place["dim"])
        shift = -1 if axes[0] > 0 else 1
        return place.changed(dim=[axis + shift for axis in axes]) if len(axes) < rank else None
    if place.op in ("cat", "cumsum", "glu", "select"):
        rank = place.output.rank + (place.op == "select")
        axis = (place["dim"] or 0) % rank
        return place.changed(dim=axis - 1 if axis > 0 else 1) if rank > 1 else None
    return None


@fault("wrong axis")
def other_order_of_axes(place: Place) -> list[Node] | None:
    """Two axes of the same length are exchanged."""
    if place.op != "permute":
        return None
    dims, shape = list(place["dims"]), place.output.shape
    for i, size in enumerate(shape):
        for j in range(i + 1, len(shape)):
            if size == shape[j] != 1:
                dims[i], dims[j] = dims[j], dims[i]
                return place.changed(dims=dims)
    return None


@fault("last part of a cat off by 10 %")
def last_part_off(place: Place) -> list[Node] | None:
    parts = place["tensors"] if place.op == "cat" else None
    if not parts or len(parts) < 2 or not place.is_float(parts[-1]):
        return None
    off = place.new("off", "aten.mul.Tensor", parts[-1], 1.1, meta=place.meta(parts[-1]))
    return [off, *place.changed(tensors=[*parts[:-1], Ref(off.name)])]


@fault("softmax axis")
def softmax_axis(place: Place) -> list[Node] | None:
    if place.op not in ("softmax", "_softmax", "log_softmax") or place.output.rank < 2:
        return None
    return place.changed(dim=place["dim"] % place.output.rank - 1)


@fault("mask inverted")
def mask_inverted(place: Place) -> list[Node] | None:
    argument = {"scaled_dot_product_attention": "attn_mask", "masked_fill": "mask", "where": "condition"}.get(
        place.op
    )
    mask = place[argument] if argument else None
    if argument is None or not isinstance(mask, Ref) or place.meta(mask).dtype != "bool":
        return None
    inverted = place.new("inverted", "aten.logical_not.default", mask, meta=place.meta(mask))
    return [inverted, *place.changed(**{argument: Ref(inverted.name)})]


@fault("causal off by one")
def causal_off_by_one(place: Place) -> list[Node] | None:
    """Every position sees the next one as well."""
    if place.op in ("tril", "triu"):
        return place.changed(diagonal=(place["diagonal"] or 0) + 1)
    if place.node.op != "aten.le.Tensor" or place.output.rank < 2:
        return None
    meta = place.meta(place["self"])
    if place.output.shape[-1] != place.output.shape[-2] or meta.is_float:
        return None
    moved = place.new("moved", "aten.sub.Tensor", place["self"], 1, meta=meta)
    return [moved, *place.changed(self=Ref(moved.name))]


@fault("rotary halves swapped")
def rotary_halves_swapped(place: Place) -> list[Node] | None:
    """(x₁, -x₂) in place of (-x₂, x₁)."""
    parts = place["tensors"] if place.op == "cat" else []
    makers = [maker.op if (maker := place.maker(part)) else None for part in parts]
    if len(parts) != 2 or makers.count("aten.neg.default") != 1:
        return None
    return place.changed(tensors=list(reversed(parts)))


@fault("positions off by one")
def positions_off_by_one(place: Place) -> list[Node] | None:
    if place.node.op == "aten.arange.default":
        kwargs = place.node.kwargs
        return place.instead("aten.arange.start", 1, grown(place["end"], 1), **kwargs)
    if place.op != "slice" or place.weight(place["self"]) is None or place.output.is_float:
        return None
    return place.changed(start=grown(place["start"] or 0, 1), end=grown(place["end"], 1))


@fault("nearest for linear")
def nearest_for_linear(place: Place) -> list[Node] | None:
    other = {"upsample_bilinear2d": "upsample_nearest2d", "upsample_linear1d": "upsample_nearest1d"}.get(
        place.op
    )
    return place.changed(f"aten.{other}.vec") if other else None


@fault("align_corners")
def align_corners(place: Place) -> list[Node] | None:
    if place.op not in ("upsample_bilinear2d", "upsample_linear1d", "upsample_bicubic2d", "grid_sampler_2d"):
        return None
    return place.changed(align_corners=not place["align_corners"])


@fault("integer division")
def integer_division(place: Place) -> list[Node] | None:
    """Towards zero in place of down, or the other way."""
    if place.op == "floor_divide" and not place.output.is_float:
        op = "aten.div.Tensor_mode" if isinstance(place["other"], Ref) else "aten.div.Scalar_mode"
        return place.changed(op, rounding_mode="trunc")
    if place.op != "div" or place["rounding_mode"] is None:
        return None
    return place.changed(rounding_mode="trunc" if place["rounding_mode"] == "floor" else "floor")


@fault("half precision")
def half_precision(place: Place) -> list[Node] | None:
    """The result is rounded to float16 on its way."""
    products = ("linear", "matmul", "bmm", "addmm", "baddbmm", "softmax", "layer_norm", *CONVOLUTIONS)
    if place.op not in products or place.output.dtype != "float32":
        return None
    first, meta = place.first(), TensorMeta(place.output.shape, "float16")
    low = place.new("half", "aten._to_copy.default", Ref(first.name), meta=meta, dtype=Dtype("float16"))
    return [first, low, *place.instead("aten._to_copy.default", Ref(low.name), dtype=Dtype("float32"))]


@fault("broadcast on the wrong side")
def broadcast_on_the_wrong_side(place: Place) -> list[Node] | None:
    """A weight for the last axis is applied along the one before, which is as long."""
    if place.op not in ("add", "mul", "sub"):
        return None
    for argument in ("self", "other"):
        weight = place.weight(place[argument])
        if weight is None or place.output.rank < 2:
            continue
        (size, *ones), shape = weight.meta.shape or (1,), place.output.shape
        if size == 1 or set(ones) - {1} or len({size, *shape[-1 - max(1, len(ones)) :]}) != 1:
            continue
        turned = (size, 1) if not ones else (size,)
        meta = TensorMeta(turned, weight.meta.dtype)
        made = place.new("turned", "aten.reshape.default", place[argument], list(turned), meta=meta)
        return [made, *place.changed(**{argument: Ref(made.name)})]
    return None


@fault("dropout left on")
def dropout_left_on(place: Place) -> list[Node] | None:
    """A fifth of the elements, scattered, become 0 and the others are scaled up, as in training."""
    if place.op not in ("linear", "add", "embedding", "gelu", "relu") or place.output.dtype != "float32":
        return None
    if place.op == "add" and not isinstance(place["other"], Ref):
        return None
    first, shape = place.first(), place.output.shape

    def step(name: str, op: str, *args: object, dtype: str = "float32") -> Node:
        return place.new(name, op, *args, meta=TensorMeta(shape, dtype))

    noise = step("noise", "aten.mul.Tensor", Ref(first.name), 12345.0)
    wave = step("wave", "aten.sin.default", Ref(noise.name))
    kept = step("kept", "aten.gt.Scalar", Ref(wave.name), -0.8, dtype="bool")
    scaled = step("scaled", "aten.mul.Tensor", Ref(first.name), 1.25)
    last = place.instead("aten.where.ScalarOther", Ref(kept.name), Ref(scaled.name), 0.0)
    return [first, noise, wave, kept, scaled, *last]


@fault("flatten order")
def flattened_channels_last(place: Place) -> list[Node] | None:
    if place.op != "reshape" or place.output.rank != 2:
        return None
    meta = place.meta(place["self"])
    if meta.rank != 4 or not meta.is_float or place.output.shape[0] != meta.shape[0]:
        return None
    if meta.shape[1] == 1 or meta.shape[2:] == (1, 1):
        return None
    batch, channels, height, width = meta.shape
    turned = TensorMeta((batch, height, width, channels), meta.dtype)
    last = place.new("channels_last", "aten.permute.default", place["self"], [0, 2, 3, 1], meta=turned)
    return [last, *place.changed(self=Ref(last.name))]


@fault("pooling")
def mean_for_maximum(place: Place) -> list[Node] | None:
    return place.changed("aten.avg_pool2d.default") if place.node.op == "aten.max_pool2d.default" else None


@fault("pooling")
def maximum_for_mean(place: Place) -> list[Node] | None:
    if place.node.op != "aten.mean.dim" or not place["dim"] or place.has("rsqrt"):
        return None
    return place.changed("aten.amax.default")
