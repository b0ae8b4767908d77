"""Arguments of operations as code: tensors of a dtype, numbers, axes."""

from __future__ import annotations

from typing import Any

import torch

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.arguments import Args, shown
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, Piece, call, code, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.sizes import may_be_negative


def same_dtype(before: str, after: str) -> bool:
    """Whether a value needs no conversion: a bool is stored as 0 or 1, but not every uint8 is a bool."""
    return before == after or (before, after) == ("bool", "uint8")


def cast(e: Emitter, arg: g.Ref, dtype: str) -> Code:
    """The value as a `&Tensor` of a dtype."""
    return e.ref(arg) if same_dtype(e.meta(arg).dtype, dtype) else converted(e, arg, dtype).borrowed


_CANDLE_CONVERTS = frozenset({"bool", "int64", "int32", "uint8"})
"""Integers that candle converts to floating point as torch does."""


def converted(e: Emitter, arg: g.Ref, dtype: str) -> Code:
    """The value converted to a dtype, as an expression that a method can be called on.

    From float64, torch rounds to float32 on the way to narrower floats, and candle does not.
    """
    before = e.meta(arg).dtype
    if same_dtype(before, dtype):
        return e.receiver(arg)
    if dtype == "bool":
        return call("ops::to_bool", e.ref(arg))
    twice = before == "float64" and dtype in ("float16", "bfloat16")
    if dtype in g.FLOATS and (before in g.FLOATS or before in _CANDLE_CONVERTS) and not twice:
        return e.receiver(arg).method("to_dtype", dtype_word(dtype))
    return call("ops::to_dtype", e.ref(arg), dtype_word(dtype))


def must_be_float(e: Emitter, arg: g.Ref) -> None:
    """Raises for integers, where torch has a kernel for them and the runtime crate has none."""
    if not e.meta(arg).is_float:
        raise Unsupported(f"of {e.meta(arg).dtype}, which the runtime crate computes for floating point only")


def dtype_word(dtype: str) -> str:
    """candle's name for a dtype."""
    if dtype not in rust.DTYPES:
        raise Unsupported(f"candle has no dtype {dtype}")
    return f"DType::{rust.DTYPES[dtype]}"


def axis(dim: int, rank: int) -> int:
    """An axis counted from 0, for one that may be counted from the end."""
    if not isinstance(dim, int) or not -max(rank, 1) <= dim < max(rank, 1):
        raise Unsupported(f"axis {dim} is out of range for {rank} axes")
    return dim % max(rank, 1)


def axes(e: Emitter, tensor: g.Ref, dims: Any) -> list[int]:
    """Axes of a tensor counted from 0, for one axis or a list; all axes if none is given."""
    rank = e.meta(tensor).rank
    if dims is None or dims == []:
        return list(range(rank))
    return [axis(dim, rank) for dim in (dims if isinstance(dims, list) else [dims])]


def per_axis(value: Any, count: int) -> list[int]:
    """A number for each axis; torch lets one number stand for all axes."""
    items = list(value) if isinstance(value, list) else [value]
    return items * count if len(items) == 1 else items


_LARGEST = 2**63 - 1
"""As f64 this becomes 2⁶³, which saturates to the same number when it is converted back."""


def number(e: Emitter, value: Any, role: str | None, kind: str = "f64") -> Code:
    """A number of Python, or a free size, as a number of a Rust type."""
    if isinstance(value, g.Sym):
        if kind != "usize" and may_be_negative(value.expr):
            signed = e.signed_size(value)
            return signed if kind == "i64" else code("({}) as {}", signed, kind)
        size = e.size(value)
        if kind == "usize":
            return size
        return code("{} as {}" if size.is_identifier else "({}) as {}", size, kind)
    if not isinstance(value, int | float):
        raise Unsupported(f"{role or 'a number'}={shown(value)} is not a number")
    if kind == "f64" and isinstance(value, int) and value != _LARGEST and int(float(value)) != value:
        raise Unsupported(f"{role or 'a number'}={value} is not exact in 64-bit floating point")
    return e.slot(int(value) if isinstance(value, bool) else value, role, kind)


def integer(e: Emitter, value: Any, role: str, dtype: str) -> Code:
    """A whole number, or a free size, for tensors of an integer dtype, which wraps it as torch does."""
    if isinstance(value, g.Sym):
        return number(e, value, role, "i64")
    if not isinstance(value, int):
        raise Unsupported(f"{role}={shown(value)} is not a whole number")
    info = torch.iinfo(getattr(torch, dtype))
    lowest = -info.max if info.min == 0 else info.min
    if not lowest <= value <= info.max:
        raise Unsupported(f"{role}={value} is out of range for {dtype}")
    return e.slot(value % (info.max + 1) if info.min == 0 else int(value), role, "i64")


def numbers(e: Emitter, values: list[int], role: str) -> Code:
    """Numbers of one role as a `&[usize]`."""
    return slice_of([e.slot(value, role) for value in values])


def is_read(e: Emitter, a: Args, index: int) -> bool:
    """Whether anything reads one of an operation's several outputs."""
    return e.times_read(g.Ref(a.node.name, index)) > 0


def part(e: Emitter, ref: g.Ref, dim: int, start: Piece, size: g.Dim, role: str | None = "size") -> Code:
    """Elements of a tensor that lie next to each other on an axis.

    A view of candle into a tensor without elements may begin behind its storage, and then it cannot be read.
    """
    length = e.size(size, role)
    if not may_be_empty(e, ref):
        return e.receiver(ref).method("narrow", dim, start, length)
    return call("ops::narrow", e.ref(ref), dim, start, length)


def may_be_empty(e: Emitter, ref: g.Ref) -> bool:
    """Whether a tensor has no elements, or a number of them that depends on data."""
    return any(dim == 0 or g.symbols_of(dim) & e.graph.measured for dim in e.meta(ref).shape)


def operand(e: Emitter, arg: g.Arg, dtype: str, like: g.Ref) -> Code:
    """A tensor of a dtype; a number becomes a tensor without axes, on the device of another tensor."""
    if isinstance(arg, g.Ref):
        return cast(e, arg, dtype)
    e.name_if_expression(like)
    device = e.device_of(like)
    return call("ops::full", slice_of([]), number(e, arg, "value"), dtype_word(dtype), device).borrowed
