"""Pooling, resizing and sampling."""

from __future__ import annotations

from torchport.capture import graph as g
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, call, optional, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import is_read, must_be_float, numbers, per_axis
from torchport.targets.candle.registry import Several, op


def _axes_count(a: Args) -> int:
    """2 for `aten.max_pool2d.default`."""
    return int(a.node.op.split("pool")[1][0])


def _windows(e: Emitter, a: Args) -> list[Code]:
    """Sizes, strides and padding of the windows."""
    count = _axes_count(a)
    kernel = per_axis(a["kernel_size"], count)
    stride = per_axis(a["stride"], count) if a["stride"] else kernel
    padding = per_axis(a["padding"], count)
    return [numbers(e, kernel, "kernel_size"), numbers(e, stride, "stride"), numbers(e, padding, "padding")]


@op("aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default")
def max_pool(e: Emitter, a: Args) -> Code:
    return _largest(e, a, "max_pool")


def _largest(e: Emitter, a: Args, name: str) -> Code:
    windows = _windows(e, a)
    dilation = numbers(e, per_axis(a["dilation"], _axes_count(a)), "dilation")
    return call(f"ops::{name}", e.ref(a["self"]), *windows, dilation, a["ceil_mode"])


@op("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool_with_indices(e: Emitter, a: Args) -> list[Code] | Several:
    if not is_read(e, a, 1):
        return [_largest(e, a, "max_pool")]
    return Several(_largest(e, a, "max_pool_with_indices"))


@op(
    "aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default"
)
def adaptive_max_pool(e: Emitter, a: Args) -> list[Code] | Several:
    arguments = [e.ref(a["self"]), e.sizes_list(a["output_size"])]
    if not is_read(e, a, 1):
        return [call("ops::adaptive_max_pool", *arguments)]
    return Several(call("ops::adaptive_max_pool_with_indices", *arguments))


@op("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(e: Emitter, a: Args) -> Code:
    must_be_float(e, a["self"])
    windows = _windows(e, a)
    divisor = optional(a.get("divisor_override"))
    flags = [a["ceil_mode"], a["count_include_pad"]]
    return call("ops::avg_pool", e.ref(a["self"]), *windows, *flags, divisor)


@op(
    "aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default", "aten.adaptive_avg_pool3d.default"
)
def adaptive_avg_pool(e: Emitter, a: Args) -> Code:
    must_be_float(e, a["self"])
    return call("ops::adaptive_avg_pool", e.ref(a["self"]), e.sizes_list(a["output_size"]))


def _output_size(e: Emitter, a: Args, count: int) -> tuple[Code, Code]:
    """The sizes of the result, and the factors that the user gave, if any."""
    a.ignore("output_size")
    factors = a["scale_factors"]
    scales = [None] * count if factors is None else [repr(float(factor)) for factor in factors]
    return e.sizes_list(a.output.shape[-count:]), slice_of(map(optional, scales))


@op("aten.upsample_nearest1d.vec", "aten.upsample_nearest2d.vec", "aten.upsample_nearest3d.vec")
def upsample_nearest(e: Emitter, a: Args) -> Code:
    size, scales = _output_size(e, a, a.output.rank - 2)
    return call("ops::upsample_nearest", e.ref(a["input"]), size, scales)


@op("aten.upsample_linear1d.vec", "aten.upsample_bilinear2d.vec", "aten.upsample_trilinear3d.vec")
def upsample_linear(e: Emitter, a: Args) -> Code:
    must_be_float(e, a["input"])
    size, scales = _output_size(e, a, a.output.rank - 2)
    return call("ops::upsample_linear", e.ref(a["input"]), size, a["align_corners"], scales)


@op("aten.upsample_bicubic2d.vec")
def upsample_bicubic(e: Emitter, a: Args) -> Code:
    must_be_float(e, a["input"])
    size, scales = _output_size(e, a, 2)
    return call("ops::upsample_bicubic", e.ref(a["input"]), size, a["align_corners"], scales)


@op("aten._upsample_bilinear2d_aa.vec", "aten._upsample_bicubic2d_aa.vec")
def upsample_antialiased_by_factors(e: Emitter, a: Args) -> Code:
    size, scales = _output_size(e, a, 2)
    return _antialiased(e, a, a["input"], size, scales)


@op("aten._upsample_bilinear2d_aa.default", "aten._upsample_bicubic2d_aa.default")
def upsample_antialiased(e: Emitter, a: Args) -> Code:
    return _antialiased(e, a, a["self"], *_size_and_scales(e, a, "hw"))


def _antialiased(e: Emitter, a: Args, x: g.Ref, size: Code, scales: Code) -> Code:
    must_be_float(e, x)
    weighing = f"ops::Weighing::{'Linear' if 'bilinear' in a.node.op else 'Cubic'}"
    return call("ops::upsample_antialiased", e.ref(x), size, weighing, a["align_corners"], scales)


def _size_and_scales(e: Emitter, a: Args, axes: str) -> tuple[Code, Code]:
    """The sizes of the result, and the factors, of which there is an argument for each axis."""
    factors = [a[f"scales_{axis}" if len(axes) > 1 else "scales"] for axis in axes]
    given = [optional(None if factor is None else repr(float(factor))) for factor in factors]
    return e.sizes_list(a["output_size"]), slice_of(given)


_AXES = {1: "w", 2: "hw", 3: "dhw"}


@op("aten.upsample_nearest1d.default", "aten.upsample_nearest2d.default", "aten.upsample_nearest3d.default")
def upsample_nearest_to(e: Emitter, a: Args) -> Code:
    size, scales = _size_and_scales(e, a, _AXES[a.output.rank - 2])
    return call("ops::upsample_nearest", e.ref(a["self"]), size, scales)


@op("aten.upsample_linear1d.default", "aten.upsample_trilinear3d.default")
def upsample_linear_to(e: Emitter, a: Args) -> Code:
    size, scales = _size_and_scales(e, a, _AXES[a.output.rank - 2])
    return call("ops::upsample_linear", e.ref(a["self"]), size, a["align_corners"], scales)


_SAMPLING = ("Bilinear", "Nearest", "Bicubic")
_BORDERS = ("Zeros", "Replicate", "Reflect")


@op("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sample(e: Emitter, a: Args) -> Code:
    sampling = f"ops::Sampling::{_SAMPLING[a['interpolation_mode']]}"
    border = f"ops::Border::{_BORDERS[a['padding_mode']]}"
    return call("ops::grid_sample", e.ref(a["input"]), e.ref(a["grid"]), sampling, border, a["align_corners"])
