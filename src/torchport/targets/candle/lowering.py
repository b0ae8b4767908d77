"""Operations of a user's own package: the Rust that the user registers for one, and how a port calls it.

The Rust is a function whose parameters are those of the operation's schema, in its order. A port that calls it has it
at the end of its source, in a module that is named after the operation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.targets.candle import rust
from torchport.targets.candle.arguments import Args, shown
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, Piece, call, code, optional, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import number
from torchport.targets.candle.registry import Several, register

_RESERVED = frozenset(("candle_nn", "torchport_runtime", "torchport_audio"))
"""Crates whose names might be those of a module."""
_FUNCTION = re.compile(r"^(pub )?fn (\w+)", re.MULTILINE)
"""A function that is not inside another item."""


@dataclass(frozen=True)
class Lowered:
    """The Rust of one operation, in a module of its own: its names are neither of the port nor of others."""

    module: str
    function: str
    text: str

    @property
    def path(self) -> str:
        return f"{self.module}::{self.function}"

    @property
    def source(self) -> str:
        """The module, as it stands at the end of generated code."""
        public = re.sub(rf"^fn {self.function}\b", f"pub fn {self.function}", self.text, flags=re.MULTILINE)
        return "\n".join([f"mod {self.module} {{", "use super::*;", "", public, "}"])


LOWERED: dict[str, Lowered] = {}
"""Operation → the Rust that was registered for it."""

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
        lowered = _read(name, op, dedent(source()).strip())
        if op in LOWERED and LOWERED[op] == lowered:
            return source  # The file that registers it has run again.
        register(op, _called(lowered.path))
        LOWERED[op] = lowered
        return source

    return decorate


def _read(name: str, op: str, text: str) -> Lowered:
    """The Rust of an operation, of which the function is called that has the operation's name, or is the only one."""
    functions = [function for _, function in _FUNCTION.findall(text)]
    if not functions:
        raise ValueError(f"the Rust for {name} has no function")
    base = op.split(".")[1]
    if len(functions) > 1 and base not in functions:
        several = ", ".join(functions)
        raise ValueError(
            f"the Rust for {name} has the functions {several}: call the one that is meant {base}"
        )
    taken = {known.module for other, known in LOWERED.items() if other != op} | _RESERVED
    module = rust.unique(op.removesuffix(".default").replace(".", "_"), taken.__contains__)
    return Lowered(module, base if base in functions else functions[0], text)


def sources(text: str) -> list[str]:
    """The modules of the registered functions that generated code calls."""
    return [known.source for known in LOWERED.values() if f"{known.path}(" in text]


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
