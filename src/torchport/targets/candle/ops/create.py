"""Operations that make a tensor from numbers."""

from __future__ import annotations

from collections.abc import Sequence

from torchport.capture import graph as g
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.registry import Args, cast, dtype_word, number, op


@op("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange(e: Emitter, a: Args) -> str:
    a["dtype"]
    start = a["start"] if "start" in a.values else 0
    step = a["step"] if "step" in a.values else 1
    dtype, end = a.output.dtype, a["end"]
    if dtype == "int64" and start == 0 and step == 1:
        return f"Tensor::arange(0i64, {number(e, end, 'bound', 'i64')}, {e.device()})?"
    words = ", ".join(number(e, value, "bound") for value in (start, end, step))
    return f"ops::arange({words}, {dtype_word(dtype)}, {e.device()})?"


def _filled(e: Emitter, shape: Sequence[g.Dim], value: g.Arg, dtype: str, device: str) -> str:
    word = dtype_word(dtype)
    if dtype == "bool" and not isinstance(value, g.Sym):
        value = bool(value)
    if value in (0, 1):
        return (
            f"Tensor::{'ones' if value else 'zeros'}({e.shape(shape) if shape else '()'}, {word}, {device})?"
        )
    return f"ops::full({e.sizes_list(shape)}, {number(e, value, 'fill')}, {word}, {device})?"


@op("aten.full.default", "aten.new_full.default", "aten.full_like.default")
def full(e: Emitter, a: Args) -> str:
    return _make(e, a, a["fill_value"])


@op(
    "aten.zeros.default",
    "aten.new_zeros.default",
    "aten.zeros_like.default",
    # What stands in memory that nobody has written to is anything; zeros will do.
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_permuted.default",
    "aten.new_empty.default",
)
def zeros(e: Emitter, a: Args) -> str:
    return _make(e, a, 0.0)


@op("aten.ones.default", "aten.new_ones.default", "aten.ones_like.default")
def ones(e: Emitter, a: Args) -> str:
    return _make(e, a, 1.0)


def _make(e: Emitter, a: Args, value: g.Arg) -> str:
    for name in ("dtype", "size", "physical_layout"):
        if name in a.values:
            a[name]
    like = a["self"] if "self" in a.values else None
    device = f"{e.receiver(like)}.device()" if like is not None else e.device()
    return _filled(e, a.output.shape, value, a.output.dtype, device)


@op("aten.fill.Scalar")
def fill_scalar(e: Emitter, a: Args) -> str:
    return _filled(e, a.output.shape, a["value"], a.output.dtype, f"{e.receiver(a['self'])}.device()")


@op("aten.fill.Tensor")
def fill_tensor(e: Emitter, a: Args) -> str:
    a["self"]
    value = cast(e, a["value"], a.output.dtype).removeprefix("&")
    return f"{value}.broadcast_as({e.shape(a.output.shape)})?"


@op("aten.scalar_tensor.default")
def scalar_tensor(e: Emitter, a: Args) -> str:
    a["dtype"]
    return _filled(e, (), a["s"], a.output.dtype, e.device())
