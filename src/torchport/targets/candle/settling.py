"""Decides what each number of a struct is: a literal, an expression over Config, or a constructor argument.

In: the modules that share a struct, of every size that the model was captured at. Out: a word for every slot, and the
constructor arguments and fields that these words need.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.body import Body, Number
from torchport.targets.candle.code import Parameter
from torchport.targets.candle.config import Config
from torchport.targets.candle.fitting import Column
from torchport.targets.candle.struct import Param

_FIELD = re.compile(r"cfg\.(\w+(?:\[\d+\])?)")
_SCALES = frozenset({"mul", "div", "scale"})


@dataclass(frozen=True)
class Member:
    """A module that shares a struct, what was written for it, and the number of the graph that it is of."""

    size: int
    module: g.Module
    body: Body


@dataclass(frozen=True)
class NumberField:
    """A field for a number that `forward` reads, and the expression that `new` sets it to."""

    name: str
    kind: str
    init: str


@dataclass(frozen=True)
class Settled:
    words: list[str]
    """For each slot, the expression that is written in its place."""
    params: list[Param]
    sources: list[int]
    """For each constructor argument, a slot that carries its value."""
    fields: list[NumberField]
    uses_config: bool


def settle(members: Sequence[Member], sizes: int, config: Config) -> Settled:
    """`sizes` is the number of graphs that the model was captured as."""
    settler = _Settler(members, sizes, config)
    body = members[0].body
    used = body.used_slots
    words = [settler.word(index) if index in used else "" for index in range(len(body.numbers))]
    hands_config_on = any(Parameter.CONFIG in item.init.parts for item in body.fields)
    uses_config = hands_config_on or settler.uses_config
    return Settled(words, settler.params, settler.sources, settler.fields, uses_config)


class _Settler:
    def __init__(self, members: Sequence[Member], sizes: int, config: Config):
        self.members, self.sizes, self.config = members, sizes, config
        self.body = members[0].body
        self.params: list[Param] = []
        self.sources: list[int] = []
        self.fields: list[NumberField] = []
        self.uses_config = False
        self._param_names: dict[tuple[Column, str], str] = {}
        self._taken_fields = {"probe", *(item.name for item in self.body.fields)}
        self._taken_params = {"cfg", "vb", "i", *self._taken_fields}

    def word(self, index: int) -> str:
        column = tuple(member.body.numbers[index].value for member in self.members)
        at_sizes: dict[int, set[int | float]] = {}
        for member, value in zip(self.members, column, strict=True):
            at_sizes.setdefault(member.size, set()).add(value)
        if any(len(values) > 1 for values in at_sizes.values()):
            return self._argument(index, column)
        is_everywhere = at_sizes.keys() == set(range(self.sizes))
        shared = tuple(at_sizes[size].copy().pop() for size in range(self.sizes)) if is_everywhere else None
        return self._shared(index, column, shared)

    def _shared(self, index: int, column: Column, at_sizes: Column | None) -> str:
        """The word for a number that is the same in all modules of a graph; `at_sizes` are its values in each graph."""
        number = self.body.numbers[index]
        places = [member.body.numbers[index].place for member in self.members if member.size == 0]
        expression = self.config.expression(at_sizes, number, self.members[0].module.path, places)
        if expression is None:
            return rust.literal(number.value, number.kind)
        self.uses_config = True
        word = expression.text
        if number.in_forward:
            word = self._kept(word, number, column, expression.kind)
        return _converted(word, expression.kind, number.kind)

    def _argument(self, index: int, column: Column) -> str:
        """The word for a number that differs: numbers with the same values in all modules are one argument."""
        number = self.body.numbers[index]
        kind = "f64" if any(isinstance(v, float) for v in column) else "i64" if min(column) < 0 else "usize"
        if (column, kind) not in self._param_names:
            wish = self._attribute(column) or (number.role or "size").split()[0]
            name = _unique(wish, self._taken_params)
            self._param_names[column, kind] = name
            self.params.append(Param(name, kind))
            self.sources.append(index)
        name = self._param_names[column, kind]
        word = self._kept(name, number, column, kind) if number.in_forward else name
        return _converted(word, kind, number.kind)

    def _kept(self, expression: str, number: Number, column: Column, kind: str) -> str:
        """An expression of `new` as one of `forward`: over fields of the struct, which are added."""
        for known in self.fields:
            if known.init == expression:
                return f"self.{known.name}"
        field = _FIELD.fullmatch(expression)
        wish: str | None = field.group(1) if field is not None else expression
        if field is None and not expression.isidentifier():
            wish = self._attribute(column) or ("scale" if kind == "f64" and _is_scale(number) else None)
        if wish is None:
            return _FIELD.sub(lambda found: self._kept(found.group(), number, (), "usize"), expression)
        name = _unique(wish, self._taken_fields)
        self.fields.append(NumberField(name, kind, expression))
        return f"self.{name}"

    def _attribute(self, column: Column) -> str | None:
        """An attribute of the class that has this value in every module, if that can be no coincidence."""
        if len(set(column)) < 2:
            return None
        for name, value in self.members[0].module.attributes.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if tuple(member.module.attributes.get(name) for member in self.members) == column:
                return name
        return None


def _unique(wish: str, taken: set[str]) -> str:
    """A name that is not taken yet, which it is from now on."""
    name = rust.unique(wish, taken.__contains__)
    taken.add(name)
    return name


def _is_scale(number: Number) -> bool:
    return (number.role or "") in _SCALES


def _converted(word: str, before: str, after: str) -> str:
    """A number of one Rust type as one of another."""
    if before == after:
        return word
    return f"({word}) as {after}" if " " in word else f"{word} as {after}"
