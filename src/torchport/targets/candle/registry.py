"""The operation table: what each operation of torch becomes, as a row of text or a function under a decorator.

A name is checked against `torch.ops` when it is registered, and a second entry for a name raises. An argument that
neither the row nor the function reads must have its default, or the operation becomes a TODO.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from torchport.capture import graph as g
from torchport.capture.operations import PACKAGES, is_operation
from torchport.targets.candle import rust
from torchport.targets.candle.arguments import Args, shown
from torchport.targets.candle.body import Unsupported
from torchport.targets.candle.code import Code, Piece, formatted, optional, slice_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.operands import axes, axis, cast, number


@dataclass(frozen=True)
class Several:
    """An expression whose value is a tuple, with an item for each output of the operation."""

    code: Code


OpFunction = Callable[[Emitter, Args], Code | list[Code] | Several]
"""Gives the expression; for an operation with several outputs, one expression for each output or one for a tuple."""

OPS: dict[str, OpFunction] = {}


def register(name: str, function: OpFunction) -> None:
    # A package that registers operations is not imported for the table's sake.
    if name.partition(".")[0] not in PACKAGES and not is_operation(name):
        raise ValueError(f"torch has no operation {name}")
    if name in OPS:
        raise ValueError(f"operation {name} is registered twice")
    OPS[name] = function


_Function = TypeVar("_Function", bound=OpFunction)


def op(*names: str) -> Callable[[_Function], _Function]:
    """Registers a function for operations."""

    def decorate(function: _Function) -> _Function:
        for name in names:
            register(name, function)
        return function

    return decorate


OF_COMPLEX: dict[str, OpFunction] = {}
"""What operations become whose operands or results are complex; the others of the table know nothing of pairs."""


def of_complex(*names: str) -> Callable[[_Function], _Function]:
    """Registers a function for operations on complex numbers."""

    def decorate(function: _Function) -> _Function:
        for name in names:
            if name in OF_COMPLEX:
                raise ValueError(f"operation {name} on complex numbers is registered twice")
            OF_COMPLEX[name] = function
        return function

    return decorate


def find(name: str, *, is_complex: bool) -> OpFunction | None:
    """The entry for an operation. What makes or reads complex numbers from or as real ones is in the one table."""
    if is_complex and name not in _BETWEEN:
        return OF_COMPLEX.get(name)
    return OPS.get(name)


_BETWEEN = frozenset(
    f"aten.{name}.default"
    for name in (
        *("view_as_real", "view_as_complex", "complex", "polar"),
        *("_fft_r2c", "_fft_c2r", "_fft_c2c", "stft", "istft"),
    )
)


def rows(table: dict[str, str], *, promote: bool = False) -> None:
    """Registers rows of text. With `promote`, tensors are first cast to the dtype of the result."""
    for name, template in table.items():
        register(name, _row(template, promote))


def _row(template: str, promote: bool) -> OpFunction:
    def emit(e: Emitter, a: Args) -> Code:
        if promote:
            # These arguments choose the dtype of the result, which is read from the result itself.
            a.ignore("dtype", "half_to_float")

        def argument(name: str, form: str) -> Piece:
            value = a[name]
            if not form and promote and isinstance(value, g.Ref):
                return cast(e, value, a.output.dtype)
            return _FORMS[form](e, a, name, value)

        return formatted(template, argument)

    return emit


def _tensor(e: Emitter, a: Args, name: str, value: Any) -> Code:
    if not isinstance(value, g.Ref):
        raise Unsupported(f"its argument {name}={shown(value)} is not a tensor")
    return e.ref(value)


def _number(kind: str) -> Form:
    return lambda e, a, name, value: number(e, value, name, kind)


def _optional_f64(e: Emitter, a: Args, name: str, value: Any) -> Code:
    if isinstance(value, int | float):
        return optional(rust.float_literal(float(value)))
    return optional(None if value is None else number(e, value, name))


def _literals(e: Emitter, a: Args, name: str, value: Any) -> Code:
    if not all(isinstance(item, int) for item in value):
        raise Unsupported(f"its argument {name} depends on free sizes")
    return slice_of(value)


Form = Callable[[Emitter, Args, str, Any], Piece]
"""How an argument is written, given its name and its value."""

_FORMS: dict[str, Form] = {
    "": _tensor,
    "recv": lambda e, a, name, value: e.receiver(value),
    "opt": lambda e, a, name, value: e.optional_ref(value),
    "opt_f64": _optional_f64,
    "opt_usize": lambda e, a, name, value: optional(value),
    "axis": lambda e, a, name, value: axis(value, e.meta(a.values["self"]).rank),
    "axes": lambda e, a, name, value: slice_of(axes(e, a.values["self"], value)),
    "f64": _number("f64"),
    "usize": _number("usize"),
    "i64": _number("i64"),
    "bool": lambda e, a, name, value: bool(value),
    "sizes": lambda e, a, name, value: e.sizes_list(value),
    "ints": _literals,
}
