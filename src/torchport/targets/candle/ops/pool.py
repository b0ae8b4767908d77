"""Pooling, resizing and sampling."""

from __future__ import annotations

from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.ops.layers import numbers, per_axis
from torchport.targets.candle.registry import Args, Several, op, used


def _pool_axes(e: Emitter, a: Args) -> tuple[str, str, str]:
    count = int(a.node.op.split("pool")[1][0])
    kernel = per_axis(a["kernel_size"], count)
    stride = per_axis(a["stride"], count) if a["stride"] else kernel
    padding = per_axis(a["padding"], count)
    return numbers(e, kernel, "kernel_size"), numbers(e, stride, "stride"), numbers(e, padding, "padding")


@op("aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default")
def max_pool(e: Emitter, a: Args) -> str:
    return _largest(e, a)


def _largest(e: Emitter, a: Args) -> str:
    kernel, stride, padding = _pool_axes(e, a)
    dilation = numbers(e, per_axis(a["dilation"], kernel.count(",") + 1), "dilation")
    ceil = "true" if a["ceil_mode"] else "false"
    return f"ops::max_pool({e.ref(a['self'])}, {kernel}, {stride}, {padding}, {dilation}, {ceil})?"


@op("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool_with_indices(e: Emitter, a: Args) -> list[str] | Several:
    if not used(a, e, 1):
        return [_largest(e, a)]
    return Several(_largest(e, a).replace("ops::max_pool(", "ops::max_pool_with_indices(", 1))


@op(
    "aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default"
)
def adaptive_max_pool(e: Emitter, a: Args) -> list[str] | Several:
    args = f"{e.ref(a['self'])}, {e.sizes_list(a['output_size'])}"
    if not used(a, e, 1):
        return [f"ops::adaptive_max_pool({args})?"]
    return Several(f"ops::adaptive_max_pool_with_indices({args})?")


@op("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(e: Emitter, a: Args) -> str:
    kernel, stride, padding = _pool_axes(e, a)
    ceil, count_pad = ("true" if a[name] else "false" for name in ("ceil_mode", "count_include_pad"))
    divisor = a["divisor_override"] if "divisor_override" in a.values else None
    override = "None" if divisor is None else f"Some({divisor})"
    head = f"{e.ref(a['self'])}, {kernel}, {stride}, {padding}"
    return f"ops::avg_pool({head}, {ceil}, {count_pad}, {override})?"


@op(
    "aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default", "aten.adaptive_avg_pool3d.default"
)
def adaptive_avg_pool(e: Emitter, a: Args) -> str:
    return f"ops::adaptive_avg_pool({e.ref(a['self'])}, {e.sizes_list(a['output_size'])})?"


def _output_size(e: Emitter, a: Args, count: int) -> tuple[str, str]:
    a["output_size"]
    factors = a["scale_factors"]
    scales = ["None"] * count if factors is None else [f"Some({float(f)!r})" for f in factors]
    return e.sizes_list(a.output.shape[-count:]), f"&[{', '.join(scales)}]"


@op("aten.upsample_nearest1d.vec", "aten.upsample_nearest2d.vec", "aten.upsample_nearest3d.vec")
def upsample_nearest(e: Emitter, a: Args) -> str:
    size, scales = _output_size(e, a, a.output.rank - 2)
    return f"ops::upsample_nearest({e.ref(a['input'])}, {size}, {scales})?"


@op("aten.upsample_linear1d.vec", "aten.upsample_bilinear2d.vec", "aten.upsample_trilinear3d.vec")
def upsample_linear(e: Emitter, a: Args) -> str:
    size, scales = _output_size(e, a, a.output.rank - 2)
    corners = "true" if a["align_corners"] else "false"
    return f"ops::upsample_linear({e.ref(a['input'])}, {size}, {corners}, {scales})?"


@op("aten.upsample_bicubic2d.vec")
def upsample_bicubic(e: Emitter, a: Args) -> str:
    size, scales = _output_size(e, a, 2)
    corners = "true" if a["align_corners"] else "false"
    return f"ops::upsample_bicubic({e.ref(a['input'])}, {size}, {corners}, {scales})?"


_SAMPLING = ("Bilinear", "Nearest", "Bicubic")
_BORDERS = ("Zeros", "Replicate", "Reflect")


@op("aten.grid_sampler_2d.default")
def grid_sample(e: Emitter, a: Args) -> str:
    sampling, border = _SAMPLING[a["interpolation_mode"]], _BORDERS[a["padding_mode"]]
    corners = "true" if a["align_corners"] else "false"
    modes = f"ops::Sampling::{sampling}, ops::Border::{border}, {corners}"
    return f"ops::grid_sample({e.ref(a['input'])}, {e.ref(a['grid'])}, {modes})?"
