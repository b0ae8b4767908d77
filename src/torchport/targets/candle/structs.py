"""From modules to structs: modules of one class whose code is the same share one struct.

A module is written with slots for its numbers. Where two modules' texts are equal, a number that is the same in both is
a literal or a Config field, and one that differs is a constructor argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.config import Config
from torchport.targets.candle.emit import Field, Todo
from torchport.targets.candle.layers import is_layer
from torchport.targets.candle.module import ModuleWriter, Param, Placed, Struct, Written
from torchport.targets.candle.rust import Slot

_CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})


@dataclass
class Group:
    """Modules that share a struct, and the struct's final words."""

    struct: Struct
    keys: list[str]
    written: Written
    words: list[str] = field(default_factory=list)
    numbers: list[Field] = field(default_factory=list)
    """Fields that hold numbers which `forward` reads."""


class Library:
    """All structs of a generated file, innermost first."""

    def __init__(self, graph: g.Graph, config: Config, checks: str):
        self.graph, self.config, self.checks = graph, config, checks
        self.placed: dict[str, Placed] = {}
        self.groups: list[Group] = []
        self.todos: list[Todo] = []
        for level in _levels(graph):
            self._write_level(level)

    def _write_level(self, keys: list[str]) -> None:
        found: dict[tuple, Group] = {}
        columns: dict[int, list[list[Slot]]] = {}
        for key in keys:
            module = self.graph.modules[key]
            written = ModuleWriter(self.graph, module, self.placed, self.checks).write()
            self.todos += written.body.todos
            identity = (module.type, _fingerprint(written))
            if identity not in found:
                token = f"\x06{len(self.groups) + len(found)}\x07"
                sizes = tuple(written.body.given_sizes)
                struct = Struct(token, inputs=len(module.inputs), outputs=len(module.outputs), sizes=sizes)
                found[identity] = Group(struct, [], written)
            group = found[identity]
            group.keys.append(key)
            columns.setdefault(id(group), []).append(written.body.slots)
        for group in found.values():
            self._settle(group, columns[id(group)])
        self.groups += found.values()

    def _settle(self, group: Group, instances: list[list[Slot]]) -> None:
        """Decides for every slot whether it is a literal, a Config expression or an argument."""
        settler = _Settler(self, group, instances)
        group.words = settler.words()
        group.struct.params = settler.params
        group.numbers = settler.fields
        text = " ".join(
            [*group.words, *(f.init for f in group.numbers), *(f.init for f in group.written.body.fields)]
        )
        group.struct.uses_config = bool(re.search(r"\bcfg\b", text))
        for key, slots in zip(group.keys, instances, strict=True):
            values = [slots[index].value for index in settler.sources]
            self.placed[key] = Placed(group.struct, values)

    def group_of(self, key: str) -> Group:
        struct = self.placed[key].struct
        return next(group for group in self.groups if group.struct is struct)


class _Settler:
    def __init__(self, library: Library, group: Group, instances: list[list[Slot]]):
        self.library, self.group, self.instances = library, group, instances
        self.params: list[Param] = []
        self.sources: list[int] = []
        """For each parameter, a slot that carries its value."""
        self.fields: list[Field] = []
        self.by_column: dict[tuple, str] = {}
        self.taken = {"cfg", "vb", "i", *(f.name for f in group.written.body.fields)}
        used = " ".join([*group.written.body.statements, group.written.body.result])
        used += " ".join(f.init for f in group.written.body.fields)
        self.used = set(rust.tokens(used))

    def words(self) -> list[str]:
        return [
            self._word(index, slot) if index in self.used else ""
            for index, slot in enumerate(self.group.written.body.slots)
        ]

    def _word(self, index: int, slot: Slot) -> str:
        column = tuple(slots[index].value for slots in self.instances)
        if len(set(column)) == 1:
            path = self.library.graph.modules[self.group.keys[0]].path
            expression = self.library.config.expression(slot.value, slot.role, slot.kind, path)
            if expression is None:
                return rust.literal(slot.value, slot.kind)
            word = self._kept(expression, slot) if slot.in_forward else expression
            return _as(word, slot, "f64" if isinstance(slot.value, float) else "usize")
        kind = "f64" if any(isinstance(v, float) for v in column) else "i64" if min(column) < 0 else "usize"
        key = (column, kind)
        if key not in self.by_column:
            name = self._name(index, slot, column)
            self.by_column[key] = name
            self.params.append(Param(name, kind))
            self.sources.append(index)
        name = self.by_column[key]
        word = self._kept(name, slot, kind) if slot.in_forward else name
        return _as(word, slot, kind)

    def _kept(self, expression: str, slot: Slot, kind: str | None = None) -> str:
        """A number that `forward` reads: a field of the struct, or an expression over fields."""
        for known in self.fields:
            if known.init == expression:
                return f"self.{known.name}"
        simple = expression.removeprefix("cfg.")
        if simple.isidentifier():
            name = simple
        else:
            attribute = self._attribute((slot.value,) * len(self.group.keys))
            if attribute is None:
                return re.sub(r"cfg\.\w+", lambda match: self._kept(match.group(), slot, "usize"), expression)
            name = self._unique(attribute)
        kind = kind or ("f64" if isinstance(slot.value, float) else "usize")
        self.fields.append(Field(name, kind, expression))
        return f"self.{name}"

    def _name(self, index: int, slot: Slot, column: tuple) -> str:
        return self._unique(self._attribute(column) or (slot.role or "size").split()[0])

    def _unique(self, name: str) -> str:
        name = rust.snake(name)
        unique, number = name, 2
        while unique in self.taken:
            unique, number = f"{name}_{number}", number + 1
        self.taken.add(unique)
        return unique

    def _attribute(self, column: tuple) -> str | None:
        """An attribute of the class that has this value in every instance."""
        modules = [self.library.graph.modules[key] for key in self.group.keys]
        for name, value in modules[0].attributes.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if tuple(m.attributes.get(name) for m in modules) == column:
                return name
        return None


def _as(word: str, slot: Slot, kind: str) -> str:
    if slot.kind == kind:
        return word
    return f"({word}) as {slot.kind}" if " " in word else f"{word} as {slot.kind}"


def _fingerprint(written: Written) -> tuple:
    body = written.body
    used = set(rust.tokens(" ".join([*body.statements, body.result, *(f.init for f in body.fields)])))
    slots = tuple((s.role, s.kind, s.in_forward) if i in used else None for i, s in enumerate(body.slots))
    fields = tuple((f.name, f.type, f.init) for f in body.fields)
    return (len(body.inputs), tuple(body.given_sizes), tuple(body.statements), body.result, fields, slots)


def _levels(graph: g.Graph) -> Iterator[list[str]]:
    """Modules to write as structs, those without struct children first."""
    heights: dict[str, int] = {}

    def height(key: str) -> int:
        if key not in heights:
            module = graph.modules[key]
            if key and is_layer(graph, module):
                heights[key] = 0
            else:
                children = [n.target for n in module.nodes if n.op == g.CALL and n.target is not None]
                heights[key] = 1 + max((height(child) for child in children), default=0)
        return heights[key]

    height("")
    for level in range(1, max(heights.values()) + 1):
        yield [key for key, value in heights.items() if value == level]


def struct_names(library: Library) -> dict[str, str]:
    """A name for each struct's token: the class's own; variants say what is different."""
    names: dict[str, str] = {}
    taken = {"Config", "Result", "Tensor", "Module", "Vec", "Probe", "VarBuilder", "Self", *_RUNTIME_TYPES}
    by_class: dict[str, list[Group]] = {}
    for group in library.groups:
        by_class.setdefault(_base_name(library, group), []).append(group)
    for base, variants in by_class.items():
        ordered = sorted(variants, key=lambda v: len(v.written.body.fields))
        for index, group in enumerate(ordered):
            name = base if index == 0 else _variant_name(base, ordered[0], group)
            unique, number = name, 2
            while unique in taken:
                unique, number = f"{name}{number}", number + 1
            taken.add(unique)
            names[group.struct.token] = unique
    return names


_RUNTIME_TYPES = [
    "Linear",
    "Embedding",
    "LayerNorm",
    "RmsNorm",
    "GroupNorm",
    "BatchNorm",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Lstm",
    "Gru",
    "Rnn",
    "Activation",
]


def _base_name(library: Library, group: Group) -> str:
    module = library.graph.modules[group.keys[0]]
    if module.class_name in _CONTAINERS:
        words = [w for w in module.path.split(".") if not w.isdigit()]
        return rust.camel(words[-1].rstrip("0123456789_") or words[-1]) if words else "Model"
    return rust.camel(module.class_name)


def _variant_name(base: str, plain: Group, group: Group) -> str:
    known = {f.name for f in plain.written.body.fields}
    extra = [f.name for f in group.written.body.fields if f.name not in known]
    return f"{base}With{rust.camel(extra[0])}" if len(extra) == 1 else base
