"""Words of Rust: identifiers, literals of numbers, and dtypes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence

_KEYWORDS = """
    as async await box break const continue crate do dyn else enum extern false final fn for gen if impl in let
    loop macro match mod move mut priv pub ref return self Self static struct super trait true try type typeof
    unsafe unsized use virtual where while yield abstract become override
"""
KEYWORDS = frozenset(_KEYWORDS.split())
_PRELUDE = """
    AsMut AsRef Box Clone Copy Default DoubleEndedIterator Drop Eq Err ExactSizeIterator Extend Fn FnMut FnOnce From
    FromIterator Into IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd Result Self Send Sized Some String
    Sync ToOwned ToString TryFrom TryInto Unpin Vec
"""
PRELUDE = frozenset(_PRELUDE.split())
"""Names that every file knows without an import; a struct of that name would hide what generated code means."""
DTYPES = {
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "uint8": "U8",
    "bool": "U8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
}
STORED = {**DTYPES, "int8": "I16"}
"""The dtype that a stored weight is read as. candle has no int8: a weight of int8 is read as I16 and may be converted,
but no operation may give an int8, because I16 would not wrap around as int8 does."""


def literal(value: int | float, kind: str) -> str:
    """A number as a literal of a Rust type: `usize`, `i64` or `f64`."""
    if kind == "f64":
        return float_literal(float(value))
    return str(value)


_CONSTANTS = {
    math.pi: "PI",
    math.tau: "TAU",
    math.pi / 2: "FRAC_PI_2",
    math.pi / 4: "FRAC_PI_4",
    1 / math.pi: "FRAC_1_PI",
    2 / math.pi: "FRAC_2_PI",
    2 / math.sqrt(math.pi): "FRAC_2_SQRT_PI",
    math.sqrt(2): "SQRT_2",
    math.sqrt(0.5): "FRAC_1_SQRT_2",
    math.e: "E",
    math.log(2): "LN_2",
    math.log(10): "LN_10",
    math.log2(math.e): "LOG2_E",
    math.log10(math.e): "LOG10_E",
    math.log2(10): "LOG2_10",
    math.log10(2): "LOG10_2",
}
"""Numbers that Rust has a name for; clippy asks for the name instead of the digits."""


def float_literal(value: float) -> str:
    if math.isnan(value):
        return "f64::NAN"
    if math.isinf(value):
        return "f64::INFINITY" if value > 0 else "f64::NEG_INFINITY"
    if abs(value) in _CONSTANTS:
        return f"{'-' if value < 0 else ''}std::f64::consts::{_CONSTANTS[abs(value)]}"
    text = re.sub(r"e([+-])0*(\d)", r"e\1\2", repr(value)).replace("e+", "e")
    return text if "e" in text or "." in text else text + ".0"


_MOST_IN_A_TUPLE = 7
"""clippy calls a type with more parts too complex."""


def tensors(names: Sequence[str]) -> str:
    """What a `forward` returns, as an expression or a pattern: one tensor, a tuple, or an array of many."""
    if len(names) == 1:
        return names[0]
    return f"({', '.join(names)})" if len(names) <= _MOST_IN_A_TUPLE else f"[{', '.join(names)}]"


def tensors_type(count: int) -> str:
    return tensors(["Tensor"] * count) if count <= _MOST_IN_A_TUPLE else f"[Tensor; {count}]"


def snake(name: str) -> str:
    """A legal snake-case identifier for any Python name."""
    text = re.sub(r"[^0-9A-Za-z_]", "_", name)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text).lower()
    text = re.sub(r"_+", "_", text).strip("_") or "value"
    if text[0].isdigit():
        text = f"layer_{text}"
    return f"{text}_" if text in KEYWORDS else text


def unique(name: str, is_taken: Callable[[str], bool]) -> str:
    """A legal snake-case identifier for a Python name, with a number if it is taken."""
    base, number = snake(name), 2
    found = base
    while is_taken(found):
        found, number = f"{base.rstrip('_')}_{number}", number + 1
    return found


def distinct(names: Iterable[str]) -> list[str]:
    """A legal snake-case identifier for each of some Python names, which may be equal when they are written so."""
    found: list[str] = []
    for name in names:
        found.append(unique(name, found.__contains__))
    return found


def camel(name: str) -> str:
    """A legal type name for any Python name; a name in capitals (`MLP`) becomes one word (`Mlp`)."""
    words = [word for word in re.split(r"[^0-9A-Za-z]+", name) if word]
    text = "".join(word[0].upper() + word[1:] for word in words) or "Model"
    if text.isupper() and len(text) > 1:
        text = text.capitalize()
    return text if not text[0].isdigit() else f"Layer{text}"
