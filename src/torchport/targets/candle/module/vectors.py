"""Items of one list that are made by the same constructor become a Vec.

What differs between the items comes from a table: `[(64, 3), (128, 5)].into_iter().enumerate().map(…)`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from torchport.targets.candle.body import UNWATCHED, Number
from torchport.targets.candle.code import Code, Parameter, Piece, Slot, code, joined, tuple_of
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.layers.table import RuntimeLayer
from torchport.targets.candle.module.child import (
    Child,
    Vector,
    builder_at,
    layer_of,
    name_within,
    struct_constructor,
)
from torchport.targets.candle.struct import Placed


@dataclass(frozen=True)
class _Items:
    """How the items of a Vec are made."""

    type: Piece
    constructor: Code
    """The expression for item `i`."""
    variables: list[str]
    """The names in the constructor that stand for another number in each item."""
    rows: list[list[Code]]
    """For each item, the value of each variable."""


def add_vector(e: Emitter, placed: Mapping[str, Placed], keys: list[str]) -> dict[str, Child] | None:
    """Adds a Vec for the items of a list, and gives them by their keys; None if they cannot be one Vec."""
    names = [name_within(e.module, key) for key in keys]
    numbers = [int(name.rpartition(".")[2]) for name in names]
    if numbers != list(range(len(keys))) or len({_kind(e, placed, key) for key in keys}) != 1:
        return None
    container = names[0].rpartition(".")[0]
    builder = builder_at(f'format!("{container}.{{i}}")' if container else "i")
    if keys[0] in placed:
        items = _struct_items([placed[key] for key in keys], e, builder)
    else:
        items = _layer_items(e, keys, builder)
    init = _collected(e, items, len(keys), container)
    vector = Vector(e.add_field(container or "layers", code("Vec<{}>", items.type), init), tuple(keys))
    return {key: _item(e, placed, vector, index) for index, key in enumerate(keys)}


def _kind(e: Emitter, placed: Mapping[str, Placed], key: str) -> Hashable:
    """Children of equal kind can be items of one Vec."""
    if key in placed:
        return placed[key].struct.name
    layer, _ = _alone(e, key)
    return (layer.constructor, layer.method)


def _alone(e: Emitter, key: str) -> tuple[RuntimeLayer, list[Number]]:
    """The layer that a child is, and its numbers, without a trace in the parent."""
    probe = Emitter(e.graph, e.module, UNWATCHED)
    return layer_of(probe, key), probe.body.numbers


def _item(e: Emitter, placed: Mapping[str, Placed], vector: Vector, index: int) -> Child:
    key, place = vector.keys[index], f"self.{vector.name}[{index}]"
    if key in placed:
        return Child.of_struct(placed[key].struct, place, vector)
    return Child.of_layer(_alone(e, key)[0], e.graph.modules[key], place, vector)


def _layer_items(e: Emitter, keys: list[str], builder: Code) -> _Items:
    offset = len(e.body.numbers)
    layer = layer_of(e, keys[0])
    numbers = [_alone(e, key)[1] for key in keys]
    varying = [i for i in range(len(numbers[0])) if len({item[i].value for item in numbers}) > 1]
    variables = [f"{numbers[0][i].role or 'size'}_{i}" for i in varying]
    constructor = layer.constructor.replaced(Parameter.BUILDER, builder)
    for i, variable in zip(varying, variables, strict=True):
        constructor = constructor.replaced(Slot(offset + i), variable)
    rows = [
        [e.slot(item[i].value, item[i].role, item[i].kind, new=True, place=item[i].place) for i in varying]
        for item in numbers
    ]
    return _Items(layer.type, constructor, variables, rows)


def _struct_items(places: list[Placed], e: Emitter, builder: Code) -> _Items:
    struct, first = places[0].struct, places[0].values
    varying = [i for i in range(len(first)) if len({place.values[i] for place in places}) > 1]
    arguments: list[Piece] = [
        param.name if i in varying else e.slot(first[i], param.name, param.kind, new=True)
        for i, param in enumerate(struct.params)
    ]
    varied = [struct.params[i] for i in varying]
    rows = [
        [
            e.slot(place.values[i], param.name, param.kind, new=True)
            for i, param in zip(varying, varied, strict=True)
        ]
        for place in places
    ]
    constructor = struct_constructor(struct, arguments, builder)
    return _Items(struct.name, constructor, [param.name for param in varied], rows)


def _collected(e: Emitter, items: _Items, count: int, container: str) -> Code:
    """The expression for the whole Vec."""
    if items.variables:
        table = joined(", ", [tuple_of(row) for row in items.rows])
        head = code("[{}].into_iter().enumerate().map(|(i, {})|", table, tuple_of(items.variables))
    else:
        head = code("(0..{}).map(|i|", e.slot(count, f"count {container}", new=True))
    item = items.constructor
    result = item.removesuffix("?") if item.endswith("?") else code("Ok({})", item)
    return code("{} {}).collect::<Result<Vec<_>>>()?", head, result)
