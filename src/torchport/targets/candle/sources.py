"""Where in the generated Rust each module's code is: the lines of every struct, found in the source as it is now."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from torchport.capture.graph import Graph, Module
from torchport.targets.base import SourceMap, Stretch

_ITEM = re.compile(r"^(?:pub )?(?:struct|impl(?: \w+ for)?) (\w+)")


def read(source: Path, graph: Graph, structs: Mapping[str, str] | None) -> SourceMap:
    """The source map of a project; `structs` says which struct a module became, if that was kept."""
    file = "/".join(source.parts[-3:])
    units = _units(source.read_text(encoding="utf-8", errors="replace"), file)
    if structs is None:
        structs = _guessed(graph, units)
    return SourceMap("Rust", "rust", units, {key: name for key, name in structs.items() if name in units})


def _units(text: str, file: str) -> dict[str, tuple[Stretch, ...]]:
    """Struct → its definition and its `impl` blocks."""
    lines = text.splitlines()
    found: dict[str, tuple[Stretch, ...]] = {}
    for number, line in enumerate(lines):
        item = _ITEM.match(line)
        if item is not None:
            first, last = _with_attributes(lines, number), _end(lines, number)
            stretch = Stretch(file, first + 1, tuple(lines[first : last + 1]))
            found[item.group(1)] = (*found.get(item.group(1), ()), stretch)
    return found


def _end(lines: list[str], first: int) -> int:
    """The line with which an item ends: rustfmt closes it with a brace of its own at the margin."""
    if lines[first].rstrip().endswith((";", "}")):
        return first
    for number in range(first + 1, len(lines)):
        if lines[number].rstrip() == "}":
            return number
    return len(lines) - 1


def _with_attributes(lines: list[str], first: int) -> int:
    while first > 0 and lines[first - 1].startswith(("#[", "///")):
        first -= 1
    return first


def _guessed(graph: Graph, units: Iterable[str]) -> dict[str, str]:
    """For a project of an earlier version: the struct of each module by the names that classes are given."""
    names = list(units)
    found = {key: _struct_of(module, graph, names) for key, module in graph.modules.items()}
    return {key: name for key, name in found.items() if name is not None}


def _struct_of(module: Module, graph: Graph, known: Iterable[str]) -> str | None:
    """The struct that a module became; None if that is in doubt.

    A class that became several structs has the plainest under its own name, and others that are called after the one
    field that they have more: `BlockWithDownsample`.
    """
    name = _plain(module.class_name)
    endings = {_plain(struct)[len(name) :]: struct for struct in known if _plain(struct).startswith(name)}
    variants = {ending: struct for ending, struct in endings.items() if ending and _is_variant(ending)}
    if "" not in endings or any(ending[0].isdigit() for ending in variants):
        return None
    fields = {_plain(_field(module, graph.modules[n.target])) for n in module.nodes if n.target is not None}
    fitting = [struct for ending, struct in variants.items() if ending.removeprefix("with") in fields]
    return {0: endings[""], 1: fitting[0] if fitting else None}.get(len(fitting))


def _is_variant(ending: str) -> bool:
    return ending[0].isdigit() or ending.startswith("with")


def _field(module: Module, child: Module) -> str:
    return child.path.removeprefix(f"{module.path}.").partition(".")[0]


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
