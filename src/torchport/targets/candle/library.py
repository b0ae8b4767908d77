"""From modules to structs: modules of one class whose code is the same share one struct.

Modules are written with slots for their numbers, those that call no other struct first. If the code of two modules is
equal, they share a struct, and `settling` decides what each number is in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from torchport.capture import graph as g
from torchport.targets.base import Todo
from torchport.targets.candle.body import Body
from torchport.targets.candle.code import StructName
from torchport.targets.candle.config import Config
from torchport.targets.candle.layers import is_layer
from torchport.targets.candle.module import write_module
from torchport.targets.candle.module.scope import is_flow_layer
from torchport.targets.candle.settling import Settled, settle
from torchport.targets.candle.struct import Placed, Struct


@dataclass(frozen=True)
class Group:
    """Modules that share a struct, the code of the first of them, and the words for its numbers."""

    struct: Struct
    keys: list[str]
    body: Body
    settled: Settled


class Library:
    """All structs of a generated file, those that hold no other first."""

    def __init__(self, graph: g.Graph, config: Config, checks: str):
        self.graph = graph
        self.placed: dict[str, Placed] = {}
        """Module key → its struct. Control flow is in the struct of the module that runs it."""
        self.groups: list[Group] = []
        self.todos: list[Todo] = []
        for keys in _levels(graph):
            self._add_level(keys, config, checks)

    def group_of(self, key: str) -> Group:
        return self.groups[self.placed[key].struct.name.index]

    def _add_level(self, keys: list[str], config: Config, checks: str) -> None:
        alike: dict[Hashable, dict[str, Body]] = {}
        for key in keys:
            module = self.graph.modules[key]
            body = write_module(self.graph, module, self.placed, checks)
            self.todos += body.todos
            alike.setdefault((module.type, _fingerprint(body)), {})[key] = body
        for bodies in alike.values():
            self._add_group(bodies, config)

    def _add_group(self, bodies: dict[str, Body], config: Config) -> None:
        modules = [self.graph.modules[key] for key in bodies]
        body, module = next(iter(bodies.values())), modules[0]
        instances = [instance.numbers for instance in bodies.values()]
        settled = settle(body, modules, instances, config)
        struct = Struct(
            StructName(len(self.groups)),
            inputs=len(module.inputs),
            outputs=len(module.outputs),
            sizes=tuple(body.given_sizes),
            params=tuple(settled.params),
            uses_config=settled.uses_config,
        )
        self.groups.append(Group(struct, list(bodies), body, settled))
        for key, numbers in zip(bodies, instances, strict=True):
            self.placed[key] = Placed(struct, [numbers[slot].value for slot in settled.sources])
            flows = [n.target for n in self.graph.modules[key].nodes if is_flow_layer(self.graph.modules, n)]
            self.placed |= {flow: self.placed[key] for flow in flows if flow is not None}


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
