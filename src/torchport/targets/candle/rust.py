"""Words of Rust: identifiers, literals, dtypes, and slots for numbers whose final form is decided later."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

KEYWORDS = frozenset(
    [
        "as",
        "async",
        "await",
        "box",
        "break",
        "const",
        "continue",
        "crate",
        "do",
        "dyn",
        "else",
        "enum",
        "extern",
        "false",
        "final",
        "fn",
        "for",
        "gen",
        "if",
        "impl",
        "in",
        "let",
        "loop",
        "macro",
        "match",
        "mod",
        "move",
        "mut",
        "priv",
        "pub",
        "ref",
        "return",
        "self",
        "Self",
        "static",
        "struct",
        "super",
        "trait",
        "true",
        "try",
        "type",
        "typeof",
        "unsafe",
        "unsized",
        "use",
        "virtual",
        "where",
        "while",
        "yield",
        "abstract",
        "become",
        "override",
    ]
)
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
"""How weights are read. No operation may give an int8, which would not wrap; one may convert it."""


@dataclass(frozen=True)
class Slot:
    """A number in generated code. `role` says what it is, so that it can be named."""

    value: int | float
    role: str | None
    kind: str
    in_forward: bool


_TOKEN = re.compile("\x01(\\d+)\x02")


def token(index: int) -> str:
    return f"\x01{index}\x02"


def fill(text: str, words: list[str]) -> str:
    """Replaces each slot's token by its word."""
    return _TOKEN.sub(lambda match: words[int(match.group(1))], text)


def tokens(text: str) -> list[int]:
    return [int(index) for index in _TOKEN.findall(text)]


def width(text: str) -> int:
    """The length that a reader sees, counting a slot as a short word."""
    return len(_TOKEN.sub("12", text))


def literal(value: int | float, kind: str) -> str:
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
"""Numbers that Rust has a name for, which clippy asks for."""


def float_literal(value: float) -> str:
    if math.isnan(value):
        return "f64::NAN"
    if math.isinf(value):
        return "f64::INFINITY" if value > 0 else "f64::NEG_INFINITY"
    if abs(value) in _CONSTANTS:
        return f"{'-' if value < 0 else ''}std::f64::consts::{_CONSTANTS[abs(value)]}"
    text = re.sub(r"e([+-])0*(\d)", r"e\1\2", repr(value)).replace("e+", "e")
    return text if "e" in text or "." in text else text + ".0"


def snake(name: str) -> str:
    """A legal snake-case identifier for any Python name."""
    text = re.sub(r"[^0-9A-Za-z_]", "_", name)
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text).lower()
    text = re.sub(r"_+", "_", text).strip("_") or "value"
    if text[0].isdigit():
        text = f"layer_{text}"
    return f"{text}_" if text in KEYWORDS else text


def camel(name: str) -> str:
    """A legal type name; what is all capitals (`MLP`) becomes one word."""
    words = [word for word in re.split(r"[^0-9A-Za-z]+", name) if word]
    text = "".join(word[0].upper() + word[1:] for word in words) or "Model"
    if text.isupper() and len(text) > 1:
        text = text.capitalize()
    return text if not text[0].isdigit() else f"Layer{text}"
