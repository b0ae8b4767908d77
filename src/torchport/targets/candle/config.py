"""Names for numbers: which of a model's sizes are fields of `Config`, and which numbers follow from them.

In: a model captured at several sizes, and the user's hints. Out: Rust expressions such as
`cfg.hidden_size / cfg.num_attention_heads`, each with its reason. A number gets a name if an expression over the
model's own config holds at every size, if a hint says so, or if it is the axis of a weight that the model's inputs or
outputs show. Equal values are no reason: any other number stays a literal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torchport.capture import graph as g
from torchport.capture.fields import numbers_of
from torchport.targets.base import NamedNumber
from torchport.targets.candle import rust
from torchport.targets.candle.body import Number
from torchport.targets.candle.fitting import Column, Expression, Fitting

Hint = int | float | list[str]
"""What a name stands for: every size of this value that has no other reason, or the weight axes at these places."""

_HINTED_ROLES = frozenset(
    {
        *("num_embeddings", "embedding_dim", "in_features", "out_features", "normalized_shape"),
        *("input_size", "hidden_size", "in_channels", "out_channels", "num_channels", "num_features"),
        *("kernel_size", "stride", "size", "offset", "bound", "repeat", "eps", "add", "count"),
    }
)
"""The roles of numbers that a hint by value names."""

_IN_SHAPES = frozenset(
    {
        *("num_embeddings", "embedding_dim", "in_features", "out_features", "normalized_shape", "eps"),
        *(
            "input_size",
            "hidden_size",
            "in_channels",
            "out_channels",
            "num_channels",
            "num_features",
            "kernel_size",
        ),
    }
)
"""The roles of numbers that weights' shapes have, so that a wrong one is seen when they are read; and `eps`."""
_OF_NO_SIZE = frozenset({-1, 0, 1, math.inf, -math.inf})
"""Literals that are taken for no size's: they are in nearly every model."""
_FIELD = re.compile(r"cfg\.(\w+(?:\[\d+\])?)")
_DIVISOR = re.compile(r"/ (\([^)]*\)|cfg\.\w+(?:\[\d+\])?)")


@dataclass(frozen=True)
class Unexplained:
    """A number that is another at other sizes, and no expression says which."""

    place: str
    value: int | float
    fields: tuple[str, ...] | None = None
    """The fields of the model's config that it moves with; None if these are not known."""


class Config:
    """The numbers that have a name, and those of them that generated code reads: the fields of its `Config`."""

    def __init__(self, graphs: Sequence[g.Graph], hints: Mapping[str, Hint] | None = None):
        self.graphs, self.graph = graphs, graphs[0]
        self.hints: dict[str, Hint] = {rust.snake(name): hint for name, hint in (hints or {}).items()}
        self.is_proven = len(graphs) > 1
        columns = [numbers_of(graph.config) for graph in graphs]
        self.known = {_word(name): value for name, value in columns[0].items()}
        names = [name for name in columns[0] if all(name in column for column in columns)]
        self._columns = {_word(name): tuple(column[name] for column in columns) for name in names}
        self._fitting = Fitting(self._columns)
        self._boundary = {} if self.is_proven else self._names_of_one_size()
        self._read: dict[str, int | float] = {}
        self.reasons: dict[tuple[str, str, int | float], NamedNumber] = {}
        self.unexplained: dict[Unexplained, None] = {}
        self.literals: dict[Number, None] = {}
        """Numbers of a model of one size that may follow from a size, and no weight's shape says so."""

    def _names_of_one_size(self) -> dict[str, str]:
        """The names of the model's first and last sizes by their places, but for names that are of several sizes."""
        named = dict(_boundary(self.graph))
        sizes: dict[str, set[object]] = {
            name: {self.known[name]} for name in named.values() if name in self.known
        }
        for place, name in named.items():
            weight, _, axis = place.removesuffix("]").rpartition("[")
            found = self.graph.weights.get(weight)
            sizes.setdefault(name, set()).add(None if found is None else found.meta.shape[int(axis)])
        return {place: name for place, name in named.items() if len(sizes[name]) == 1}

    @property
    def fields(self) -> dict[str, int | float | list[int | float]]:
        """The fields that generated code reads, in the order of the model's own config."""
        order = [*self.known, *self.hints, *self._boundary.values()]
        fields: dict[str, int | float | list[int | float]] = {}
        for name in sorted(self._read, key=order.index):
            base, _, index = name.partition("[")
            if index:
                items = [value for known, value in self.known.items() if known.startswith(f"{base}[")]
                fields[base] = items
            else:
                fields[name] = self._read[name]
        return fields

    def expression(
        self, column: Column | None, number: Number, path: str, places: Sequence[str | None]
    ) -> Expression | None:
        """A Rust expression over `cfg` for a number of the module at `path`, or None if the number stays a literal.

        `column` has its value at every size that the model was captured at, and `places` the weight axes that it is.
        """
        found = self._by_place(number, places) or self._by_sizes(column, number, path)
        found = found or self._by_value(number, path)
        if found is None:
            if column is not None and len(set(column)) > 1:
                place = f"{path} {number.role or ''}".strip()
                self.unexplained[Unexplained(place, number.value, self._moved_by(column))] = None
            elif not self.is_proven and self._may_follow(number):
                self.literals[number] = None
            return None
        expression, why = found
        for name in expression.sizes:
            self._read[name] = self.known.get(name, number.value)
        said = NamedNumber(expression.text, number.value, path, number.role, why)
        self.reasons.setdefault((path, expression.text, number.value), said)
        return expression

    def axis(self, column: Column, place: str | None) -> str:
        """How the size of an input's axis is written for a reader: a number, a size that the code reads, or `_`.

        It is `_` if it follows from sizes in some other way, so that nobody takes it for fixed.
        """
        number = Number(column[0], "size", "usize", in_forward=False)
        found = self._by_place(number, [place]) if place is not None else None
        found = found or self._by_sizes(column if len(column) > 1 else None, number, "")
        found = found or self._by_value(number, "")
        if found is None:
            return str(column[0]) if len(set(column)) == 1 else "_"
        name = found[0].text
        is_field = name.removeprefix("cfg.").isidentifier()
        return name if is_field and found[0].sizes <= self._read.keys() else "_"

    def _by_place(self, number: Number, places: Sequence[str | None]) -> tuple[Expression, str] | None:
        """The name of a weight axis, by a hint or because it is the model's first or last size."""
        for name, hint in self.hints.items():
            if isinstance(hint, list) and all(
                place is not None and any(_fits(place, pattern) for pattern in hint) for place in places
            ):
                return _field(name), f"a hint names {places[0]}"
        names = {self._boundary.get(place or "") for place in places}
        if len(names) == 1 and (only := names.pop()) is not None:
            return _field(only), f"{places[0]} is what the model takes or gives"
        return None

    def _by_sizes(self, column: Column | None, number: Number, path: str) -> tuple[Expression, str] | None:
        """What holds at every size that the model was captured at."""
        found = [] if column is None else self._fitting.explanations(column, number.digits)
        if column is None or not found:
            return None
        best = max(found, key=lambda item: _likeness(item, f"{path} {number.role or ''}"))
        values = ", ".join(f"{value:.6g}" for value in column)
        return best, f"holds at all {len(column)} sizes of the model: {values}"

    def _by_value(self, number: Number, path: str) -> tuple[Expression, str] | None:
        """A hint for all sizes of a value."""
        role = (number.role or "").split()
        if not role or role[0] not in _HINTED_ROLES:
            return None
        for name, hint in self.hints.items():
            if isinstance(hint, int | float) and hint == number.value and type(hint) is type(number.value):
                return _field(name), f"a hint names {hint}"
        return None

    def _moved_by(self, column: Column) -> tuple[str, ...] | None:
        """The fields that a number moves with which has these values; None if one of the variants does not say so.

        It is known by its values, so that it must be found wherever it is another: one pair may be another number's.
        """
        found = {(move.variant, move.number, move.other): move.fields for move in self.graph.moves}
        places = [
            next(i for i, own in enumerate(self.graph.variants) if own is graph) for graph in self.graphs[1:]
        ]
        keys = [
            (i, column[0], other) for i, other in zip(places, column[1:], strict=True) if other != column[0]
        ]
        if not all(key in found for key in keys):
            return None
        return tuple(dict.fromkeys(_word(name) for key in keys for name in found[key]))

    def _may_follow(self, number: Number) -> bool:
        """Whether a literal may follow from the model's first or last size for all that is known."""
        role = (number.role or "").split()
        is_free = number.place is None and not _IN_SHAPES.intersection(role[:1])
        return is_free and not isinstance(number.value, str) and number.value not in _OF_NO_SIZE

    @property
    def fixed(self) -> dict[str, list[str]]:
        """The fields that must stay as they are, each with what nobody knows the value of otherwise."""
        every = list(self._read)
        found: dict[str, list[str]] = {}
        for item in self.unexplained:
            for name in every if item.fields is None else item.fields:
                found.setdefault(name, []).append(f"{item.value} in {item.place}")
        for name, tensors in self.graph.bound.items():
            found.setdefault(_word(name), []).extend(tensors)
        if self.literals:
            values = ", ".join(dict.fromkeys(f"{number.value:.6g}" for number in self.literals))
            for name in dict.fromkeys(self._boundary.values()):
                found.setdefault(name, []).append(f"the literals {values}")
        return {name: why for name, why in found.items() if name in self._read}

    @property
    def unread(self) -> dict[str, str | int | float]:
        """The items of lists that no code reads: the item that each is equal to at all sizes, or its value."""
        lists = {name.partition("[")[0] for name in self._read if "[" in name}
        found: dict[str, str | int | float] = {}
        for name, value in self.known.items():
            if name.partition("[")[0] in lists and "[" in name and name not in self._read:
                column = self._columns.get(name)
                same = [other for other in self._read if column and self._columns.get(other) == column]
                found[name] = same[0] if same else value
        return found

    @property
    def divisors(self) -> list[str]:
        """The fields that something is divided by."""
        texts = [name.expression for name in self.reasons.values()]
        divided = [part for text in texts for part in _DIVISOR.findall(text)]
        words = {word for part in divided for word in _FIELD.findall(part)}
        return [name for name in self._read if name in words]

    def value_of(self, name: str) -> int | float:
        """The recorded value of a field that the code reads."""
        return self._read[name]

    def unused_hints(self) -> list[str]:
        """The hints that named nothing."""
        return [name for name in self.hints if name not in self._read]


def _field(name: str) -> Expression:
    return Expression(f"cfg.{name}", frozenset({name}))


def _word(name: str) -> str:
    """The name of a number of the model's config as a field: `depths[0]` for an item of a list."""
    base, bracket, rest = name.partition("[")
    return rust.snake(base) + bracket + rest


def _fits(place: str, pattern: str) -> bool:
    return fnmatchcase(place.replace("[", "(").replace("]", ")"), pattern.replace("[", "(").replace("]", ")"))


def _likeness(expression: Expression, place: str) -> tuple[int, int]:
    """How many words the sizes of an expression share with a place in the model; the shorter of two is greater."""
    words = set(re.split(r"[^a-z0-9]+|_", place.lower()))
    shared = sum(word in words for name in expression.sizes for word in name.split("_"))
    return shared, -len(expression.text)


def _boundary(graph: g.Graph) -> Iterator[tuple[str, str]]:
    """Weight axes that only the model's inputs and outputs show, and their usual names.

    A layer that alone reads an input, or that gives an output, has a size that no other number follows from.
    """
    root, modules = graph.root, graph.modules
    outputs = [ref.name for ref in g.refs(list(root.outputs))]
    inputs = [item.name for item in root.inputs]
    readers = [ref.name for node in root.nodes for ref in g.refs([node.args, node.kwargs])]
    for node in root.nodes:
        module = None if node.target is None else modules.get(node.target)
        if module is None or len(module.nodes) != 1:
            continue
        first = node.args[0].name if node.args else ""
        reads_input = first in inputs and readers.count(first) == 1 and first not in outputs
        match module.nodes[0].op:
            case "aten.linear.default":
                if reads_input:
                    yield f"{module.path}.weight[1]", "in_features"
                if outputs.count(node.name) == 1 and readers.count(node.name) == 0:
                    yield f"{module.path}.weight[0]", "out_features"
            case "aten.embedding.default" if reads_input:
                yield f"{module.path}.weight[0]", "vocab_size"


def weight_axis(graph: g.Graph, name: str) -> str | None:
    """The weight axis that the last axis of an input is multiplied with, if a layer reads the input as it is."""
    for node in graph.root.nodes:
        module = graph.modules.get(node.target or "")
        operations = [] if module is None else [inner.op for inner in module.nodes]
        if module is not None and node.args[:1] == (g.Ref(name),) and operations == ["aten.linear.default"]:
            return f"{module.path}.weight[1]"
    return None
