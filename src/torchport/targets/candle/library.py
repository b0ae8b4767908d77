"""From modules to structs: modules of one class whose code is the same share one struct.

Modules are written with slots for their numbers, those that call no other struct first. If the code of two modules is
equal, they share a struct, and `settling` decides what each number is in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from torchport.capture import graph as g
from torchport.targets.base import Todo
from torchport.targets.candle.body import Body, Written
from torchport.targets.candle.code import StructName
from torchport.targets.candle.config import Config
from torchport.targets.candle.layers import is_layer
from torchport.targets.candle.module import write_module
from torchport.targets.candle.module.scope import is_flow_layer
from torchport.targets.candle.settling import Member, Settled, settle
from torchport.targets.candle.struct import Placed, Struct


@dataclass(frozen=True)
class Group:
    """Modules that share a struct, the code of the first of them, and the words for its numbers."""

    struct: Struct
    keys: list[str]
    """The modules of the graph that is written."""
    body: Body
    settled: Settled


class Library:
    """All structs of a generated file, those that hold no other first.

    The model may be given as several graphs, captured at other sizes: modules of all of them share structs, and only
    those of the first are written.
    """

    def __init__(self, graphs: Sequence[g.Graph], config: Config, written: Written):
        self.graphs, self.graph = graphs, graphs[0]
        self._placed: list[dict[str, Placed]] = [{} for _ in graphs]
        self._groups: list[Group] = []
        self.todos: list[Todo] = []
        levels = zip_longest(*(list(_levels(graph)) for graph in graphs), fillvalue=[])
        for keys in levels:
            self._add_level(keys, config, written)

    @property
    def placed(self) -> dict[str, Placed]:
        """Module key → its struct. Control flow is in the struct of the module that runs it."""
        return self._placed[0]

    @property
    def groups(self) -> list[Group]:
        return [group for group in self._groups if group.keys]

    def group_of(self, key: str) -> Group:
        return self._groups[self.placed[key].struct.name.index]

    def alike(self) -> list[g.Graph]:
        """The graphs that became the same code as the first."""
        root = self.placed[""].struct
        return [
            graph
            for graph, placed in zip(self.graphs, self._placed, strict=True)
            if placed[""].struct == root
        ]

    def _add_level(self, keys: Sequence[list[str]], config: Config, written: Written) -> None:
        alike: dict[Hashable, list[Member]] = {}
        for size, (graph, own) in enumerate(zip(self.graphs, keys, strict=True)):
            for key in own:
                module = graph.modules[key]
                body = write_module(graph, module, self._placed[size], written)
                self.todos += body.todos if size == 0 else []
                alike.setdefault((module.type, _fingerprint(body)), []).append(Member(size, module, body))
        for members in alike.values():
            self._add_group(members, config)

    def _add_group(self, members: list[Member], config: Config) -> None:
        body, module = members[0].body, members[0].module
        settled = settle(members, len(self.graphs), config)
        struct = Struct(
            StructName(len(self._groups)),
            inputs=len(module.inputs),
            outputs=len(module.outputs),
            sizes=tuple(body.given_sizes),
            params=tuple(settled.params),
            uses_config=settled.uses_config,
        )
        keys = [member.module.key for member in members if member.size == 0]
        self._groups.append(Group(struct, keys, body, settled))
        for member in members:
            values = [member.body.numbers[slot].value for slot in settled.sources]
            modules = self.graphs[member.size].modules
            flows = [node.target for node in member.module.nodes if is_flow_layer(modules, node)]
            keys_here = [member.module.key, *(key for key in flows if key is not None)]
            self._placed[member.size] |= dict.fromkeys(keys_here, Placed(struct, values))


def _fingerprint(body: Body) -> Hashable:
    """Two modules of one class share a struct if this is equal for both: all of the code but the values of numbers."""
    used = body.used_slots
    numbers = tuple(
        (n.role, n.kind, n.in_forward) if index in used else None for index, n in enumerate(body.numbers)
    )
    sizes = tuple(body.given_sizes)
    return (len(body.inputs), sizes, tuple(body.statements), body.result, tuple(body.fields), numbers)


def _levels(graph: g.Graph) -> Iterator[list[str]]:
    """The modules that become structs, level by level: first those that call no struct, then their callers."""
    heights: dict[str, int] = {}

    def height(key: str) -> int:
        if key not in heights:
            module = graph.modules[key]
            if key and is_layer(graph, module):
                heights[key] = 0
            else:
                calls = [n for n in module.nodes if n.op == g.CALL and not is_flow_layer(graph.modules, n)]
                children = [node.target for node in calls if node.target is not None]
                heights[key] = 1 + max((height(child) for child in children), default=0)
        return heights[key]

    height("")
    for level in range(1, max(heights.values()) + 1):
        yield [key for key, value in heights.items() if value == level]
