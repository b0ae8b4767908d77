"""The arguments of operations in JSON, and back.

Null, booleans, numbers, strings and lists are JSON's own. Everything else is an object with one key that says what it
is: a reference, a symbolic size, a dtype. `KINDS` describes each of these once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import AfterValidator, ConfigDict, PlainSerializer, PlainValidator, TypeAdapter, ValidationError

from torchport.capture import graph as g
from torchport.errors import CaptureError

_STRICT = ConfigDict(strict=True)


def _must_be_dtype(name: str) -> str:
    if not isinstance(getattr(torch, name, None), torch.dtype):
        raise ValueError(f"{name!r} is not a dtype of torch")
    return name


DtypeName = Annotated[str, AfterValidator(_must_be_dtype)]


@dataclass(frozen=True)
class Kind:
    """A kind of argument that JSON does not have: its form in JSON, and how it is made from that and made that."""

    of: type[Any]
    form: TypeAdapter[Any]
    decode: Callable[[Any], Any]
    encode: Callable[[Any], Any]


def _named(of: type[Any], form: TypeAdapter[Any] | None = None) -> Kind:
    return Kind(of, form or TypeAdapter(str, config=_STRICT), of, lambda value: value.name)


def _decode_expr(data: Any) -> g.Expr:
    if isinstance(data, list):
        if len(data) < 3 or data[0] not in g.SYM_OPERATIONS:
            raise ValueError(f"{data!r} is not an operation on sizes")
        return (data[0], *map(_decode_expr, data[1:]))
    if type(data) is not int and not isinstance(data, str):
        raise ValueError(f"{data!r} is not a size")
    return data


def _encode_expr(expr: g.Expr) -> Any:
    return [expr[0], *map(_encode_expr, expr[1:])] if isinstance(expr, tuple) else expr


KINDS = {
    "ref": Kind(
        g.Ref,
        TypeAdapter(str | tuple[str, int]),
        lambda data: g.Ref(*data) if isinstance(data, tuple) else g.Ref(data),
        lambda ref: [ref.name, ref.index] if ref.index else ref.name,
    ),
    "sym": Kind(
        g.Sym,
        TypeAdapter(Annotated[Any, PlainValidator(_decode_expr)]),
        g.Sym,
        lambda sym: _encode_expr(sym.expr),
    ),
    "float": Kind(float, TypeAdapter(Literal["inf", "-inf", "nan"]), float, str),
    "complex": Kind(
        complex,
        TypeAdapter(tuple[float, float]),
        lambda parts: complex(*parts),
        lambda number: [number.real, number.imag],
    ),
    "dtype": _named(g.Dtype, TypeAdapter(DtypeName)),
    "device": _named(g.Device),
    "layout": _named(g.Layout),
    "memory_format": _named(g.MemoryFormat),
}
_WORDS = {kind.of: word for word, kind in KINDS.items()}
_PLAIN = (bool, int, float, str, type(None))


def encode(arg: g.Arg) -> Any:
    """An argument as JSON has it; TypeError if it has no form there."""
    word = _WORDS.get(type(arg))
    if word is not None and not (word == "float" and math.isfinite(arg)):
        return {word: KINDS[word].encode(arg)}
    if isinstance(arg, list | tuple):
        return [encode(item) for item in arg]
    if isinstance(arg, _PLAIN):
        return arg
    raise TypeError(f"an argument of type {type(arg).__name__} has no form in the manifest")


def decode(data: Any) -> g.Arg:
    """An argument of JSON; ValueError if it is of no kind that is known."""
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    if len(data) != 1:
        raise ValueError(f"an argument has {len(data)} kinds: {', '.join(data)}")
    ((word, value),) = data.items()
    if word not in KINDS:
        raise ValueError(f"an argument is of the unknown kind {word!r}")
    kind = KINDS[word]
    try:
        return kind.decode(kind.form.validate_python(value))
    except ValidationError as error:
        raise ValueError(f"{value!r} is no {word}: {error.errors()[0]['msg']}") from error


def _decode_size(data: Any) -> g.Sym:
    if not isinstance(data, dict) or "sym" not in data:
        raise ValueError(f"{data!r} is not a size")
    size = decode(data)
    assert isinstance(size, g.Sym)
    return size


Arg = Annotated[Any, PlainValidator(decode), PlainSerializer(encode)]
Dim = Annotated[int | Annotated[g.Sym, PlainValidator(_decode_size)], PlainSerializer(encode)]


def must_be_typed(graph: g.Graph) -> None:
    """CaptureError if an argument has no form in JSON: a number that export took out of a tensor has none."""
    for module in graph.modules.values():
        for node in module.nodes:
            if not _is_typed([*node.args, *node.kwargs.values()]):
                raise CaptureError(
                    "TP0202",
                    f"{node.op} takes a number that is read from a tensor (.item() or float(tensor))",
                    where=node.source or module.key or None,
                    fix="keep the value a tensor: leave .item() out",
                )


def _is_typed(arg: g.Arg) -> bool:
    if isinstance(arg, list | tuple):
        return all(_is_typed(item) for item in arg)
    return isinstance(arg, (*_PLAIN, *_WORDS))
