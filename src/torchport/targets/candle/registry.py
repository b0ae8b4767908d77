"""The operation table: rows of text, functions under a decorator, and arguments that cannot be dropped.

A name is checked against `torch.ops` when it is registered, a second entry for a name raises, and an argument
that neither the row nor the function reads must have its default, or the operation is a TODO.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.emit import Emitter, Unsupported


@dataclass(frozen=True)
class Several:
    """An expression whose value is a tuple."""

    text: str


OpFunction = Callable[[Emitter, "Args"], "str | list[str] | Several"]
"""Gives the expression; for an operation with several outputs, one for each or one tuple."""

OPS: dict[str, OpFunction] = {}
_PLACE = re.compile(r"\{(\w+)(?::(\w+))?\}")
_ALWAYS_FINE = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator"})
"""Where and how a tensor lies in memory, not what it is."""


class Args:
    """An operation's arguments by the names of its schema; remembers which were read."""

    def __init__(self, node: g.Node):
        self.node = node
        self.values: dict[str, g.Arg] = {}
        self.defaults: dict[str, g.Arg] = {}
        self.read: set[str] = set()
        for index, argument in enumerate(schema(node.op).arguments):
            default = argument.default_value if argument.has_default_value() else None
            self.defaults[argument.name] = default
            given = node.args[index] if index < len(node.args) else default
            self.values[argument.name] = node.kwargs.get(argument.name, given)

    def __getitem__(self, name: str) -> g.Arg:
        self.read.add(name)
        return self.values[name]

    @property
    def output(self) -> g.TensorMeta:
        meta = self.node.outputs[0]
        assert meta is not None
        return meta

    def check_all_read(self) -> None:
        for name, value in self.values.items():
            if name in self.read or name in _ALWAYS_FINE or value == self.defaults[name]:
                continue
            raise Unsupported(f"its argument {name}={_show(value)} is not handled")


@cache
def schema(op: str) -> Any:
    return overload(op)._schema


def overload(op: str) -> Any:
    namespace, name, variant = op.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), variant)


def register(name: str, function: OpFunction) -> None:
    try:
        overload(name)
    except (AttributeError, ValueError) as error:
        raise ValueError(f"torch has no operation {name}") from error
    if name in OPS:
        raise ValueError(f"operation {name} is registered twice")
    OPS[name] = function


def op(*names: str) -> Callable[[OpFunction], OpFunction]:
    def decorate(function: OpFunction) -> OpFunction:
        for name in names:
            register(name, function)
        return function

    return decorate


def rows(table: dict[str, str], *, promote: bool = False) -> None:
    """Registers rows of text. With `promote`, tensors are first cast to the dtype of the result."""
    for name, template in table.items():
        register(name, _row(template, promote))


_SAID_BY_THE_RESULT = ("dtype", "half_to_float")
"""Arguments that choose the result's dtype, which a promoting row reads from the result itself."""


def _row(template: str, promote: bool) -> OpFunction:
    def emit(e: Emitter, a: Args) -> str:
        if promote:
            a.read.update(_SAID_BY_THE_RESULT)

        def place(match: re.Match[str]) -> str:
            name, spec = match.groups()
            value = a[name]
            if spec is None and promote and isinstance(value, g.Ref):
                return cast(e, value, a.output.dtype)
            return _FORMS[spec](e, a, name, value)

        return _PLACE.sub(place, template)

    return emit


def cast(e: Emitter, arg: g.Ref, dtype: str) -> str:
    """The value as `&Tensor` of a dtype."""
    return e.ref(arg) if same_dtype(e.meta(arg).dtype, dtype) else f"&{converted(e, arg, dtype)}"


def same_dtype(before: str, after: str) -> bool:
    """Whether a value needs no conversion: a bool is stored as 0 or 1, but not every uint8 is a bool."""
    return before == after or (before, after) == ("bool", "uint8")


_CANDLE_CONVERTS = frozenset({"bool", "int64", "int32", "uint8"})
"""Integers that candle makes floating point numbers of as torch does."""


def converted(e: Emitter, arg: g.Ref, dtype: str) -> str:
    """The value converted, as an expression to continue with."""
    before = e.meta(arg).dtype
    if same_dtype(before, dtype):
        return e.receiver(arg)
    if dtype == "bool":
        return f"ops::to_bool({e.ref(arg)})?"
    if dtype in g.FLOATS and (before in g.FLOATS or before in _CANDLE_CONVERTS):
        return f"{e.receiver(arg)}.to_dtype({dtype_word(dtype)})?"
    return f"ops::to_dtype({e.ref(arg)}, {dtype_word(dtype)})?"


def dtype_word(dtype: str) -> str:
    if dtype not in rust.DTYPES:
        raise Unsupported(f"candle has no dtype {dtype}")
    return f"DType::{rust.DTYPES[dtype]}"


def axis(dim: int, rank: int) -> int:
    if not isinstance(dim, int) or not -max(rank, 1) <= dim < max(rank, 1):
        raise Unsupported(f"axis {dim} is out of range for {rank} axes")
    return dim % max(rank, 1)


def axes(e: Emitter, tensor: g.Ref, dims: Any) -> list[int]:
    """Normalised axes; none given means all."""
    rank = e.meta(tensor).rank
    if dims is None or dims == []:
        return list(range(rank))
    return [axis(dim, rank) for dim in (dims if isinstance(dims, list) else [dims])]


_LARGEST = 2**63 - 1
"""Becomes 2⁶³ as f64, which saturates to itself again."""


def number(e: Emitter, value: Any, role: str | None, kind: str = "f64") -> str:
    """A number of Python as one of Rust."""
    if isinstance(value, g.Sym):
        text = e.size(value)
        if kind == "usize":
            return text
        return f"{text} as {kind}" if text.isidentifier() else f"({text}) as {kind}"
    if not isinstance(value, int | float):
        raise Unsupported(f"{role or 'a number'}={_show(value)} is not a number")
    if kind == "f64" and isinstance(value, int) and value != _LARGEST and int(float(value)) != value:
        raise Unsupported(f"{role or 'a number'}={value} is not exact in 64-bit floating point")
    return e.slot(int(value) if isinstance(value, bool) else value, role, kind)


def used(a: Args, e: Emitter, index: int) -> bool:
    """Whether anything reads one of an operation's several outputs."""
    read = [[node.args, node.kwargs] for node in e.module.nodes] + [list(e.module.outputs)]
    return g.Ref(a.node.name, index) in set(g.refs(read))


def named(e: Emitter, arg: g.Ref) -> None:
    """Gives a value a name, for an operation that reads it more than once."""
    if e.values[arg].form == "expr":
        e.name_it(arg)


def _show(value: Any) -> str:
    return repr(value) if not isinstance(value, g.Ref) else "a tensor"


def _number(kind: str) -> Callable[[Emitter, Args, str, Any], str]:
    return lambda e, a, name, value: number(e, value, name, kind)


def _optional(e: Emitter, a: Args, name: str, value: Any) -> str:
    return "None" if value is None else f"Some({e.ref(value)})"


def _optional_f64(e: Emitter, a: Args, name: str, value: Any) -> str:
    if isinstance(value, int | float):
        return f"Some({rust.float_literal(float(value))})"
    return "None" if value is None else f"Some({number(e, value, name)})"


def _optional_usize(e: Emitter, a: Args, name: str, value: Any) -> str:
    return "None" if value is None else f"Some({value})"


def _axis_form(e: Emitter, a: Args, name: str, value: Any) -> str:
    return str(axis(value, e.meta(a.values["self"]).rank))


def _axes_form(e: Emitter, a: Args, name: str, value: Any) -> str:
    return f"&{axes(e, a.values['self'], value)}"


def _plain(e: Emitter, a: Args, name: str, value: Any) -> str:
    if not isinstance(value, g.Ref):
        raise Unsupported(f"its argument {name}={_show(value)} is not a tensor")
    return e.ref(value)


def _list(e: Emitter, a: Args, name: str, value: Any) -> str:
    return e.sizes_list(value)


def _literals(e: Emitter, a: Args, name: str, value: Any) -> str:
    if not all(isinstance(item, int) for item in value):
        raise Unsupported(f"its argument {name} depends on free sizes")
    return f"&{list(value)}"


_FORMS: dict[str | None, Callable[[Emitter, Args, str, Any], str]] = {
    None: _plain,
    "recv": lambda e, a, name, value: e.receiver(value),
    "opt": _optional,
    "opt_f64": _optional_f64,
    "opt_usize": _optional_usize,
    "axis": _axis_form,
    "axes": _axes_form,
    "f64": _number("f64"),
    "usize": _number("usize"),
    "i64": _number("i64"),
    "bool": lambda e, a, name, value: "true" if value else "false",
    "sizes": _list,
    "ints": _literals,
}
