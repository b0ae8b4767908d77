"""Operations that make a tensor from numbers."""

from __future__ import annotations

from collections.abc import Sequence

from torchport.capture import graph as g
from torchport.targets.candle.arguments import Args
from torchport.targets.candle.code import Code, call
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import cast, dtype_word, number
from torchport.targets.candle.registry import op


@op("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange(e: Emitter, a: Args) -> Code:
    a.ignore("dtype")
    start = a.get("start", 0)
    step = a.get("step", 1)
    dtype, end = a.output.dtype, a["end"]
    if dtype == "int64" and (start, step) == (0, 1) and not isinstance(end, float):
        return call("Tensor::arange", "0i64", number(e, end, "bound", "i64"), e.device())
    bounds = [number(e, value, "bound") for value in (start, end, step)]
    return call("ops::arange", *bounds, dtype_word(dtype), e.device())


def _filled(e: Emitter, shape: Sequence[g.Dim], value: g.Arg, dtype: str, device: Code) -> Code:
    word = dtype_word(dtype)
    if dtype == "bool" and not isinstance(value, g.Sym):
        value = bool(value)
    if value in (0, 1):
        return call(f"Tensor::{'ones' if value else 'zeros'}", e.shape(shape), word, device)
    return call("ops::full", e.sizes_list(shape), number(e, value, "fill"), word, device)


@op("aten.full.default", "aten.new_full.default", "aten.full_like.default")
def full(e: Emitter, a: Args) -> Code:
    return _make(e, a, a["fill_value"])


@op(
    "aten.zeros.default",
    "aten.new_zeros.default",
    "aten.zeros_like.default",
    # An empty tensor has any values, so zeros will do.
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_permuted.default",
    "aten.empty_strided.default",
    "aten.new_empty.default",
)
def zeros(e: Emitter, a: Args) -> Code:
    return _make(e, a, 0.0)


@op("aten.ones.default", "aten.new_ones.default", "aten.ones_like.default")
def ones(e: Emitter, a: Args) -> Code:
    return _make(e, a, 1.0)


def _make(e: Emitter, a: Args, value: g.Arg) -> Code:
    """A tensor full of one value, with the shape and dtype of the result."""
    a.ignore("dtype", "size", "stride", "physical_layout")
    device = e.device_of(a["self"]) if "self" in a else e.device()
    return _filled(e, a.output.shape, value, a.output.dtype, device)


@op("aten.fill.Scalar")
def fill_scalar(e: Emitter, a: Args) -> Code:
    return _filled(e, a.output.shape, a["value"], a.output.dtype, e.device_of(a["self"]))


@op("aten.fill.Tensor")
def fill_tensor(e: Emitter, a: Args) -> Code:
    a.ignore("self")
    value = cast(e, a["value"], a.output.dtype).removeprefix("&")
    return value.method("broadcast_as", e.shape(a.output.shape))


@op("aten.scalar_tensor.default")
def scalar_tensor(e: Emitter, a: Args) -> Code:
    a.ignore("dtype")
    return _filled(e, (), a["s"], a.output.dtype, e.device())
