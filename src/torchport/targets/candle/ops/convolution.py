"""Convolution."""

from __future__ import annotations

from torchport.targets.candle.arguments import Args
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, call, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import must_be_float, numbers, per_axis
from torchport.targets.candle.registry import op


@op("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(e: Emitter, a: Args) -> Code:
    count = e.meta(a["weight"]).rank - 2
    options = [numbers(e, per_axis(a[name], count), name) for name in ("stride", "padding", "dilation")]
    groups = e.slot(a["groups"], "groups")
    return call("ops::conv", *_conv_tensors(e, a), *options, groups)


def _conv_tensors(e: Emitter, a: Args) -> list[Code]:
    must_be_float(e, a["input"])
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
