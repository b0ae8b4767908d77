"""The children that a module calls become fields of its struct: each one alone, or the items of a list as a Vec."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from torchport.capture import graph as g
from torchport.targets.candle import rust
from torchport.targets.candle.code import Parameter
from torchport.targets.candle.emit import Emitter
from torchport.targets.candle.module.child import (
    Child,
    builder_at,
    layer_of,
    name_within,
    struct_constructor,
)
from torchport.targets.candle.module.scope import is_flow_layer
from torchport.targets.candle.module.vectors import add_vector
from torchport.targets.candle.struct import Placed


def add_children(e: Emitter, placed: Mapping[str, Placed]) -> dict[str, Child]:
    """Adds a field for each child or list of children, and gives the children by their keys."""
    children: dict[str, Child] = {}
    for family in _families(e.graph.modules, e.module):
        is_list = len(family) > 1 or _is_list_item(e.module, family[0])
        items = add_vector(e, placed, family) if is_list else None
        children |= items or {key: _add_field(e, placed, key) for key in family}
    return children


def _families(modules: Mapping[str, g.Module], module: g.Module) -> Iterator[list[str]]:
    """The keys of the children that are called: items of one list together, each other child alone."""
    families: dict[str, list[str]] = {}
    calls = [node for node in module.nodes if node.op == g.CALL and not is_flow_layer(modules, node)]
    for key in dict.fromkeys(node.target for node in calls if node.target):
        container, _, last = name_within(module, key).rpartition(".")
        families.setdefault(container if last.isdigit() else f"={key}", []).append(key)
    yield from families.values()


def _is_list_item(module: g.Module, key: str) -> bool:
    """Whether a child is an item of a ModuleList (`layers.0`), which stays a list even if it has one item."""
    container, _, last = name_within(module, key).rpartition(".")
    return last.isdigit() and container != ""


def _add_field(e: Emitter, placed: Mapping[str, Placed], key: str) -> Child:
    module = e.graph.modules[key]
    path = name_within(e.module, key).partition("@")[0]
    name = name_after_class(module) if path.isdigit() else path
    builder = builder_at(f'"{path}"')
    if key not in placed:
        layer = layer_of(e, key)
        init = layer.constructor.replaced(Parameter.BUILDER, builder)
        return Child.of_layer(layer, module, f"self.{e.add_field(name, layer.type, init)}")
    struct, values = placed[key].struct, placed[key].values
    arguments = [
        e.slot(value, param.name, param.kind, new=True)
        for value, param in zip(values, struct.params, strict=True)
    ]
    init = struct_constructor(struct, arguments, builder)
    return Child.of_struct(struct, f"self.{e.add_field(name, struct.name, init)}")


_USUAL_NAMES = {"ReLU": "relu", "SiLU": "silu", "GELU": "gelu", "LeakyReLU": "leaky_relu", "ReLU6": "relu6"}


def name_after_class(module: g.Module) -> str:
    """A name for a child that has only a number, such as `0` of an nn.Sequential."""
    name = _USUAL_NAMES.get(module.class_name, rust.snake(module.class_name))
    return "norm" if name.startswith("batch_norm") else re.sub(r"^(conv|conv_transpose)\d?d$", r"\1", name)
