"""Names that are chosen when all structs are known: those of the structs, and those of the inputs of `forward`."""

from __future__ import annotations

import re

from torchport.targets.candle import rust
from torchport.targets.candle.code import InputName, StructName
from torchport.targets.candle.layers.table import RUNTIME_TYPES
from torchport.targets.candle.library import Group, Library

IMPORTED = ("DType", "Device", "Module", "Probe", "Result", "Tensor", "VarBuilder")
"""What generated files may import from candle and the runtime crate, beside the types of layers."""

_CONTAINERS = frozenset({"Sequential", "ModuleList", "ModuleDict"})
_TAKEN = frozenset({"Config", *IMPORTED, *RUNTIME_TYPES, *rust.PRELUDE})


def struct_names(library: Library) -> dict[StructName, str]:
    """The class's own name for each struct; if a class became several, the name says what is different."""
    names: dict[StructName, str] = {}
    taken = set(_TAKEN)
    by_class: dict[str, list[Group]] = {}
    for group in library.groups:
        by_class.setdefault(_name_of_class(library, group), []).append(group)
    for base, variants in by_class.items():
        plainest, *others = sorted(variants, key=lambda group: len(group.body.fields))
        for group in (plainest, *others):
            name = base if group is plainest else _name_of_variant(base, plainest, group)
            unique, number = name, 2
            while unique in taken:
                unique, number = f"{name}{number}", number + 1
            taken.add(unique)
            names[group.struct.name] = unique
    return names


def _name_of_class(library: Library, group: Group) -> str:
    """The name of the class; a container is named after the attribute that holds it."""
    module = library.graph.modules[group.keys[0]]
    if module.class_name in _CONTAINERS:
        words = [word for word in module.path.split(".") if not word.isdigit()]
        return rust.camel(words[-1].rstrip("0123456789_") or words[-1]) if words else "Model"
    return rust.camel(module.class_name)


def _name_of_variant(base: str, plainest: Group, group: Group) -> str:
    """`BlockWithDownsample` for a struct that has one field more than the plainest."""
    known = {item.name for item in plainest.body.fields}
    extra = [item.name for item in group.body.fields if item.name not in known]
    return f"{base}With{rust.camel(extra[0])}" if len(extra) == 1 else base


def input_names(library: Library) -> dict[StructName, list[str]]:
    """The inputs of each struct, called as the first caller calls them; the only tensor of a layer is `xs`."""
    names: dict[StructName, list[str]] = {}

    def visit(group: Group, wishes: list[str]) -> None:
        if group.struct.name in names:
            return
        names[group.struct.name] = _inputs_of(library, group, wishes)
        for call in group.body.calls:
            if call.key in library.placed:
                here = names[group.struct.name]
                visit(library.group_of(call.key), [_wish(argument, here) for argument in call.arguments])

    visit(library.group_of(""), rust.distinct(item.name for item in library.graph.root.inputs))
    return names


def _wish(argument: str | InputName | None, callers_inputs: list[str]) -> str:
    """The name that a caller's argument gives to an input, or nothing if it has no name there."""
    name = callers_inputs[argument.index] if isinstance(argument, InputName) else argument or ""
    return name if re.fullmatch(r"\w+", name) else ""


def _inputs_of(library: Library, group: Group, wishes: list[str]) -> list[str]:
    module = library.graph.modules[group.keys[0]]
    variables = group.body.variables
    chosen: list[str] = []
    for item, wish in zip(module.inputs, wishes, strict=True):
        is_plain = module.key != "" and (len(wishes) == 1 or not wish) and item.meta.is_float
        name = "xs" if is_plain else rust.snake(wish or "xs")
        taken = variables.union(chosen)
        chosen.append(rust.unique("xs" if name in taken else name, taken.__contains__))
    return chosen
