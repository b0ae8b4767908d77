"""Faults in operations that are whole layers: products, convolutions, norms, attention."""

from __future__ import annotations

from collections.abc import Callable

from torchport.capture.graph import Dim, Node, Ref, Sym, TensorMeta

from .kinds import of_kind
from .rewrite import Place, Rewrite

GRAPH: dict[str, list[Rewrite]] = {}
CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
TRANSPOSED = ("conv_transpose1d", "conv_transpose2d")
SLIGHTLY = 1.0003
NORMS = ("layer_norm", "group_norm", "_native_batch_norm_legit_no_training")


def fault(kind: str) -> Callable[[Rewrite], Rewrite]:
    return of_kind(GRAPH, kind)


def per_axis(value: int | list[int], count: int) -> list[int]:
    items = list(value) if isinstance(value, list) else [value]
    return items * count if len(items) == 1 else items


def grown(size: Dim, by: int) -> Dim:
    return size + by if isinstance(size, int) else Sym(("add", size.expr, by))


def with_axes_exchanged(place: Place, argument: str, *axes: int) -> list[Node]:
    """The operation with two axes of a weight, which are as long, exchanged."""
    meta = place.meta(place[argument])
    weight = place.new("weight", "aten.transpose.int", place[argument], *axes, meta=meta)
    return [weight, *place.changed(**{argument: Ref(weight.name)})]


@fault("transposed weight")
def transposed_weight(place: Place) -> list[Node] | None:
    argument = {"linear": "weight", "addmm": "mat2"}.get(place.op)
    weight = place.weight(place[argument]) if argument else None
    if argument is None or weight is None or weight.meta.shape[0] != weight.meta.shape[1]:
        return None
    return with_axes_exchanged(place, argument, 0, 1)


@fault("conv kernel transposed")
def transposed_kernel(place: Place) -> list[Node] | None:
    weight = place.weight(place["weight"]) if place.op in (*CONVOLUTIONS, *TRANSPOSED) else None
    if weight is None or weight.meta.rank != 4 or weight.meta.shape[2] != weight.meta.shape[3]:
        return None
    return with_axes_exchanged(place, "weight", 2, 3)


@fault("conv kernel transposed")
def channels_transposed(place: Place) -> list[Node] | None:
    weight = place.weight(place["weight"]) if place.op in (*CONVOLUTIONS, *TRANSPOSED) else None
    if weight is None or weight.meta.shape[0] != weight.meta.shape[1]:
        return None
    return with_axes_exchanged(place, "weight", 0, 1)


@fault("bias dropped")
def without_bias(place: Place) -> list[Node] | None:
    if place.op == "addmm" and place.weight(place["self"]) is not None:
        return place.instead("aten.mm.default", place["mat1"], place["mat2"])
    if place.op in ("linear", *CONVOLUTIONS, *TRANSPOSED, *NORMS) and place["bias"] is not None:
        return place.changed(bias=None)
    return None


_CONFUSED = {1e-3: 1e-5, 1e-5: 1e-6, 1e-6: 1e-5, 1e-12: 1e-5}
"""An epsilon → the one that it is taken for."""


@fault("epsilon")
def epsilon(place: Place) -> list[Node] | None:
    if place.op in NORMS:
        return place.changed(eps=_CONFUSED.get(place["eps"], 1e-4))
    is_root_mean_square = place.op == "add" and place.has("rsqrt") and isinstance(place["other"], float)
    return place.changed(other=_CONFUSED.get(place["other"], 1e-4)) if is_root_mean_square else None


@fault("statistics swapped")
def statistics_swapped(place: Place) -> list[Node] | None:
    if place.op != "_native_batch_norm_legit_no_training":
        return None
    return place.changed(running_mean=place["running_var"], running_var=place["running_mean"])


def _padding(place: Place) -> list[int] | None:
    """What a convolution pads with zeros on either side of each axis, if it does."""
    if place.op not in CONVOLUTIONS or not place.node.op.endswith(".default"):
        return None
    padding = per_axis(place["padding"] or 0, place.output.rank - 2)
    return padding if any(padding) else None


def _padded_before(place: Place, widths: list[int], *mode: str) -> list[Node]:
    """The convolution without its padding, on an input that has been padded otherwise."""
    meta = place.meta(place["input"])
    sizes = [grown(s, sum(widths[2 * i : 2 * i + 2])) for i, s in enumerate(reversed(meta.shape[2:]))]
    wider = TensorMeta((*meta.shape[:2], *reversed(sizes)), meta.dtype)
    padded = place.new("padded", "aten.pad.default", place["input"], widths, *mode, meta=wider)
    return [padded, *place.changed(input=Ref(padded.name), padding=[0] * (meta.rank - 2))]


@fault("padding")
def padded_to_one_side(place: Place) -> list[Node] | None:
    """Off by one in its place: one element less before and one more after."""
    padding = _padding(place)
    if padding is None or min(padding) < 1:
        return None
    return _padded_before(place, [width for p in reversed(padding) for width in (p - 1, p + 1)])


@fault("padding")
def padded_too_little(place: Place) -> list[Node] | None:
    """Off by one in its size, so that the result has another shape."""
    padding = _padding(place)
    return place.changed(padding=[max(0, p - 1) for p in padding]) if padding is not None else None


@fault("padding")
def pad_shifted(place: Place) -> list[Node] | None:
    if place.op != "pad" or not place["pad"] or place["pad"][0] < 1:
        return None
    return place.changed(pad=[place["pad"][0] - 1, place["pad"][1] + 1, *place["pad"][2:]])


@fault("padding mode")
def replicated_for_zeros(place: Place) -> list[Node] | None:
    padding = _padding(place)
    if padding is None or place.op == "conv3d":
        return None
    return _padded_before(place, [p for p in reversed(padding) for _ in range(2)], "replicate")


@fault("padding mode")
def other_mode(place: Place) -> list[Node] | None:
    if place.op == "pad" and any(place["pad"]):
        others = {"reflect": "replicate", "replicate": "reflect", "circular": "reflect"}
        return place.changed(mode=others.get(place["mode"] or "constant", "constant"), value=None)
    mode, _, rank = place.op.partition("_pad")
    others = {"reflection": "replication", "replication": "reflection"}
    return place.changed(f"aten.{others[mode]}_pad{rank}.default") if mode in others else None


@fault("stride")
def stride_dropped(place: Place) -> list[Node] | None:
    if place.op not in (*CONVOLUTIONS, *TRANSPOSED, "max_pool2d", "avg_pool2d", "max_pool1d"):
        return None
    stride = per_axis(place["stride"] or 1, place.output.rank - 2)
    return place.changed(stride=[1] * len(stride)) if set(stride) != {1} else None


@fault("dilation dropped")
def dilation_dropped(place: Place) -> list[Node] | None:
    if place.op not in CONVOLUTIONS or not place["dilation"]:
        return None
    rank = place.output.rank - 2
    dilation, padding = (per_axis(place[name] or 0, rank) for name in ("dilation", "padding"))
    if set(dilation) == {1}:
        return None
    return place.changed(dilation=[1] * rank, padding=[p // d for p, d in zip(padding, dilation)])


@fault("scale missing")
def scale_missing(place: Place) -> list[Node] | None:
    if place.op == "scaled_dot_product_attention" and place["scale"] != 1.0:
        return place.changed(scale=1.0)
    attends = place.has("softmax", "scaled_dot_product_attention")
    return place.changed(other=1.0) if attends and _is_scaling(place) else None


def _is_scaling(place: Place) -> bool:
    is_factor = place.op in ("mul", "div") and place.is_float(place["self"])
    return is_factor and isinstance(place["other"], float)


@fault("scale off by 0.03 %")
def scale_slightly_off(place: Place) -> list[Node] | None:
    """As if the scale had been written down with four digits: 0.17683 for 0.17677."""
    if place.op == "scaled_dot_product_attention":
        query = place.meta(place["query"])
        scale = query.shape[-1] ** -0.5 if place["scale"] is None else place["scale"]
        return place.changed(scale=scale * SLIGHTLY)
    attends = place.has("softmax", "matmul")
    return place.changed(other=place["other"] * SLIGHTLY) if attends and _is_scaling(place) else None


@fault("q and k swapped")
def query_and_key_swapped(place: Place) -> list[Node] | None:
    if place.op == "scaled_dot_product_attention":
        query, key = place["query"], place["key"]
        same = place.meta(query).shape == place.meta(key).shape
        return place.changed(query=key, key=query) if same else None
    left, right = {"matmul": ("self", "other"), "baddbmm": ("batch1", "batch2")}.get(place.op, (None, None))
    turned = place.maker(place[right]) if left and right else None
    if left is None or right is None or turned is None or turned.op != "aten.transpose.int":
        return None
    query, key = place[left], turned.args[0]
    if place.meta(query).shape != place.meta(key).shape or turned.args[1:] not in ((-2, -1), (-1, -2)):
        return None
    meta = place.meta(place[right])
    across = place.new("query", "aten.transpose.int", query, *turned.args[1:], meta=meta)
    return [across, *place.changed(**{left: key, right: Ref(across.name)})]


@fault("heads split wrongly")
def heads_split_wrongly(place: Place) -> list[Node] | None:
    """Heads taken apart by a reshape alone, where the axes should have been exchanged."""
    axes = place.node.args[1:] if place.op == "transpose" else ()
    if place.output.rank != 4 or axes not in ((1, 2), (2, 1)) or not place.is_float(place["self"]):
        return None
    return place.instead("aten.reshape.default", place["self"], list(place.output.shape))


@fault("heads split wrongly")
def heads_of_windows(place: Place) -> list[Node] | None:
    """The same where query, key and value come out of one projection."""
    if place.op != "permute" or place["dims"] not in ([2, 0, 3, 1, 4], [2, 0, 1, 3]):
        return None
    return place.instead("aten.reshape.default", place["self"], list(place.output.shape))
