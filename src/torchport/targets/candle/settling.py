"""Decides what each number of a struct is: a literal, an expression over Config, or a constructor argument.

In: the code of the modules that share a struct, and the numbers of each. Out: a word for every slot, and the
constructor arguments and fields that these words need.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.body import Body, Number
from torchport.targets.candle.code import Parameter
from torchport.targets.candle.config import Config
from torchport.targets.candle.struct import Param

Column = tuple[int | float, ...]
"""The values of one slot in all modules that share the struct."""


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


def settle(body: Body, modules: list[g.Module], instances: list[list[Number]], config: Config) -> Settled:
    """`instances` are the numbers of each module, in the order of the modules."""
    settler = _Settler(body, modules, instances, config)
    used = body.used_slots
    words = [settler.word(index) if index in used else "" for index in range(len(body.numbers))]
    hands_config_on = any(Parameter.CONFIG in item.init.parts for item in body.fields)
    uses_config = hands_config_on or settler.uses_config
    return Settled(words, settler.params, settler.sources, settler.fields, uses_config)


class _Settler:
    def __init__(self, body: Body, modules: list[g.Module], instances: list[list[Number]], config: Config):
        self.body, self.modules, self.instances, self.config = body, modules, instances, config
        self.params: list[Param] = []
        self.sources: list[int] = []
        self.fields: list[NumberField] = []
        self.uses_config = False
        self._param_names: dict[tuple[Column, str], str] = {}
        self._taken_fields = {"probe", *(item.name for item in body.fields)}
        self._taken_params = {"cfg", "vb", "i", *self._taken_fields}

    def word(self, index: int) -> str:
        number = self.body.numbers[index]
        column = tuple(numbers[index].value for numbers in self.instances)
        return self._shared(number) if len(set(column)) == 1 else self._argument(index, column)

    def _shared(self, number: Number) -> str:
        """The word for a number that is the same in all modules."""
        path = self.modules[0].path
        expression = self.config.expression(number.value, number.role, number.kind, path)
        if expression is None:
            return rust.literal(number.value, number.kind)
        self.uses_config = True
        kind = "f64" if isinstance(number.value, float) else "usize"
        word = self._kept(expression, number, kind) if number.in_forward else expression
        return _converted(word, kind, number.kind)

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
        word = self._kept(name, number, kind) if number.in_forward else name
        return _converted(word, kind, number.kind)

    def _kept(self, expression: str, number: Number, kind: str) -> str:
        """An expression of `new` as one of `forward`: over fields of the struct, which are added."""
        for known in self.fields:
            if known.init == expression:
                return f"self.{known.name}"
        wish: str | None = expression.removeprefix("cfg.")
        if not expression.removeprefix("cfg.").isidentifier():
            wish = self._attribute((number.value,) * len(self.modules))
        if wish is None:
            return re.sub(r"cfg\.\w+", lambda found: self._kept(found.group(), number, "usize"), expression)
        name = _unique(wish, self._taken_fields)
        self.fields.append(NumberField(name, kind, expression))
        return f"self.{name}"

    def _attribute(self, column: Column) -> str | None:
        """An attribute of the class that has this value in every module."""
        for name, value in self.modules[0].attributes.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if tuple(module.attributes.get(name) for module in self.modules) == column:
                return name
        return None


def _unique(wish: str, taken: set[str]) -> str:
    """A name that is not taken yet, which it is from now on."""
    name = rust.unique(wish, taken.__contains__)
    taken.add(name)
    return name


def _converted(word: str, before: str, after: str) -> str:
    """A number of one Rust type as one of another."""
    if before == after:
        return word
    return f"({word}) as {after}" if " " in word else f"{word} as {after}"
