"""Generated code while some of its words are not known yet: text with typed parts in between.

A part stands for a word that is chosen later: a number that may become a Config field, the name of an input or of a
struct. `call`, `code` and `Code.method` put code together; `Code.filled` gives the text when all words are known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from string import Formatter
from typing import NoReturn

from torchport.targets.candle import rust


@dataclass(frozen=True)
class Slot:
    """A number, by its position in the module's list of numbers."""

    index: int


@dataclass(frozen=True)
class InputName:
    """The name of an input of `forward`, by its position."""

    index: int


@dataclass(frozen=True)
class StructName:
    """The name of a struct, by its position in the library of structs."""

    index: int


class Parameter(Enum):
    """A parameter of a constructor that not every constructor reads, and what it is called there."""

    BUILDER = "vb"
    """The VarBuilder that weights are read from."""
    CONFIG = "cfg"


Part = Slot | InputName | StructName | Parameter


@dataclass(frozen=True)
class Code:
    """Text and parts in the order in which they are written.

    No text is empty and no two texts are neighbours, so that code that reads the same is equal. Made by the functions
    below.
    """

    parts: tuple[str | Part, ...]

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError('code in an f-string would lose its parts; write code("…{}…", …) or call(…)')

    def method(self, name: str, *arguments: Piece) -> Code:
        """A method call on this value: `xs.narrow(0, 1, 2)?`."""
        return code("{}.{}({})?", self, name, joined(", ", arguments))

    @property
    def borrowed(self) -> Code:
        return code("&{}", self)

    @property
    def cloned(self) -> Code:
        return code("{}.clone()", self)

    @property
    def is_identifier(self) -> bool:
        return len(self.parts) == 1 and isinstance(self.parts[0], str) and self.parts[0].isidentifier()

    def slots(self) -> Iterator[int]:
        """The position of each number, in the order in which they are written."""
        return (part.index for part in self.parts if isinstance(part, Slot))

    def width(self) -> int:
        """About how long the text will be: a number counts as two digits, another part as a short name."""
        return len(self.filled(lambda part: "12" if isinstance(part, Slot) else _short_name(part)))

    def filled(self, word: Callable[[Part], str]) -> str:
        """The text, with each part replaced by its word."""
        return "".join(part if isinstance(part, str) else word(part) for part in self.parts)

    def replaced(self, part: Part, by: Piece) -> Code:
        """The same code with something else in the place of a part."""
        return joined("", (by if found == part else found for found in self.parts))

    def startswith(self, prefix: str) -> bool:
        first = self.parts[0] if self.parts else ""
        return isinstance(first, str) and first.startswith(prefix)

    def endswith(self, suffix: str) -> bool:
        last = self.parts[-1] if self.parts else ""
        return isinstance(last, str) and last.endswith(suffix)

    def removeprefix(self, prefix: str) -> Code:
        if not self.startswith(prefix):
            return self
        first, *rest = self.parts
        return joined("", (str(first).removeprefix(prefix), *rest))

    def removesuffix(self, suffix: str) -> Code:
        if not self.endswith(suffix):
            return self
        *rest, last = self.parts
        return joined("", (*rest, str(last).removesuffix(suffix)))

    def without_outer_parentheses(self) -> Code:
        """The code between its first and last character if these are a pair of parentheses, else all of it."""
        outline = self.filled(lambda part: "_")
        if not outline.startswith("(") or _end_of_pair(outline) != len(outline) - 1:
            return self
        return self.removeprefix("(").removesuffix(")")


EMPTY = Code(())
Piece = Code | Part | str | int
"""Anything that code is put together from. A number is written in digits, a bool as `true` or `false`."""


def as_code(piece: Piece) -> Code:
    return Code(_parts(piece))


def code(template: str, *pieces: Piece, **named: Piece) -> Code:
    """A template with a piece for each `{}` or `{name}`; a brace of Rust is written twice, as for `str.format`."""
    following = iter(pieces)
    return formatted(template, lambda name, _: named[name] if name else next(following))


def formatted(template: str, piece: Callable[[str, str], Piece]) -> Code:
    """A template with a piece for each `{name:spec}`."""
    pieces: list[Piece] = []
    for text, name, spec, _ in Formatter().parse(template):
        pieces.append(text)
        if name is not None:
            pieces.append(piece(name, spec or ""))
    return joined("", pieces)


def joined(separator: str, pieces: Iterable[Piece]) -> Code:
    """The pieces one after another, with a text between each two."""
    parts: list[str | Part] = []
    for index, piece in enumerate(pieces):
        for part in (separator if index else "", *_parts(piece)):
            if isinstance(part, str) and parts and isinstance(parts[-1], str):
                parts[-1] += part
            elif part != "":
                parts.append(part)
    return Code(tuple(parts))


def call(function: str, *arguments: Piece) -> Code:
    """A call that may fail: `ops::relu(xs)?`."""
    return code("{}({})?", function, joined(", ", arguments))


def slice_of(items: Iterable[Piece]) -> Code:
    return code("&[{}]", joined(", ", items))


def tuple_of(items: Iterable[Piece]) -> Code:
    """A tuple; one item stays as it is."""
    given = list(items)
    return joined("", given) if len(given) == 1 else code("({})", joined(", ", given))


def tensors_of(items: Iterable[Piece]) -> Code:
    """What a `forward` returns, as an expression or a pattern: a tensor, a tuple, or an array of many."""
    given = list(items)
    return code(rust.tensors(["{}"] * len(given)), *given)


def optional(piece: Piece | None) -> Code:
    """`Some(…)`, or `None` if there is nothing."""
    return code("None") if piece is None else code("Some({})", piece)


def _parts(piece: Piece) -> tuple[str | Part, ...]:
    if isinstance(piece, Code):
        return piece.parts
    if isinstance(piece, bool):
        return ("true" if piece else "false",)
    if isinstance(piece, int):
        return (str(piece),)
    if isinstance(piece, str | Part):
        return (piece,) if piece != "" else ()
    raise TypeError(f"{piece!r} is not code, a text or a whole number")


def _short_name(part: Part) -> str:
    return part.value if isinstance(part, Parameter) else f"x_{part.index}"


def _end_of_pair(text: str) -> int:
    """The position of the parenthesis that closes the one at the start."""
    depth = 0
    for found in re.finditer(r"[()]", text):
        depth += 1 if found.group() == "(" else -1
        if depth == 0:
            return found.start()
    return -1
