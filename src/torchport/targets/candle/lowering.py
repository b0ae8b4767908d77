"""Operations of a user's own package: the Rust that the user registers for one, and how a port calls it.

The Rust is a function whose parameters are those of the operation's schema, in its order. A port that calls it has it
at the end of its source.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.targets.candle.arguments import Args, shown
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, Piece, call, code, optional, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import number
from torchport.targets.candle.registry import Several, register

LOWERED: dict[str, tuple[str, str]] = {}
"""Operation → the name of its Rust function, and the source of it."""

Rust = Callable[[], str]


def full_name(name: str) -> str:
    """`mylib.op.default` for `mylib::op`."""
    namespace, found, rest = name.partition("::")
    if not found or not namespace or not rest:
        raise ValueError(f"{name!r} is not the name of an operation such as 'mylib::op'")
    return f"{namespace}.{rest}" if "." in rest else f"{namespace}.{rest}.default"


def lowers(name: str) -> Callable[[Rust], Rust]:
    """Registers Rust for an operation of torch.library, which must be defined before.

    What is decorated gives the source of a function. Its parameters are those of the operation: `&Tensor` for a tensor,
    `Option<&Tensor>`, `f64`, `i64`, `bool`, `&str`, and `&[…]` for lists; it returns `Result<Tensor>` or a tuple.
    """
    op = full_name(name)

    def decorate(source: Rust) -> Rust:
        text = source().strip()
        found = re.search(r"\bfn (\w+)", text)
        if found is None:
            raise ValueError(f"the Rust for {name} has no function")
        register(op, _called(found.group(1)))
        LOWERED[op] = found.group(1), text
        return source

    return decorate


def sources(text: str) -> list[str]:
    """The Rust of all registered functions that generated code calls."""
    called = (source for function, source in LOWERED.values() if re.search(rf"\b{function}\(", text))
    return list(dict.fromkeys(called))


def how_to_register(op: str) -> str | None:
    """What to do about an operation of a package that nobody has registered Rust for."""
    namespace, name, form = op.split(".")
    if namespace in ("aten", "prims", "torchport"):
        return None
    short = f"{namespace}::{name}" if form == "default" else f"{namespace}::{name}.{form}"
    return f'register Rust for it: @torchport.candle.lowers("{short}"), see docs/custom-operations.md'


def _called(function: str) -> Callable[[Emitter, Args], Code | Several]:
    def emit(e: Emitter, a: Args) -> Code | Several:
        known = operations.arguments(a.node.op)
        value = call(function, *(_written(e, a[one.name], one) for one in known))
        return value if len(a.node.outputs) == 1 else Several(value)

    return emit


def _written(e: Emitter, value: Any, argument: operations.Argument) -> Piece:
    """An argument as Rust takes it."""
    type_ = argument.type
    if type_.startswith("Optional["):
        inner = type_.removeprefix("Optional[").removesuffix("]")
        return optional(None if value is None else _plain(e, value, argument.name, inner))
    return _plain(e, value, argument.name, type_)


def _plain(e: Emitter, value: Any, name: str, type_: str) -> Piece:
    if type_.startswith("List["):
        inner = type_.removeprefix("List[").removesuffix("]")
        return slice_of(_plain(e, item, name, inner) for item in value)
    if isinstance(value, g.Ref):
        return e.ref(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return code('"{}"', value.replace("\\", "\\\\").replace('"', '\\"'))
    if type_ in _KINDS:
        return number(e, value, name, _KINDS[type_])
    raise Unsupported(f"its argument {name}={shown(value)} of type {type_} has no form in Rust")


_KINDS = {"float": "f64", "number": "f64", "Scalar": "f64", "int": "i64", "SymInt": "i64"}
