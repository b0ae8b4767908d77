"""Loops that torch.export wrote out step by step: chains of equal steps that take one slice after the other.

In: a module of the graph. Out: where its loops are, and what they carry. A loop of Python over the length of an axis
runs as often as that axis of the example inputs is long; the graph no longer says that it was a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from torchport.capture import graph as g
from torchport.capture.taken_apart import LEAST_STEPS, UNBIND, taken_apart

_ADVANCING = {
    "aten.select.int": {2},
    "aten.select_scatter.default": {3},
    "aten.slice.Tensor": {2, 3},
    "aten.slice_scatter.default": {3, 4},
}
"""Operation → the positions of the arguments that may be one more in each step."""
_COLLECTING = frozenset({"aten.stack.default", "aten.cat.default"})


@dataclass(frozen=True)
class Unrolled:
    """A loop: `count` times `period` nodes, from the position `start` on."""

    start: int
    period: int
    count: int
    advancing: frozenset[tuple[int, tuple[int, ...]]]
    """What is one more in each step: the position of the node within a step, and the path to the argument."""
    init: dict[g.Ref, g.Ref]
    """What is carried, by the names of the first step → what the first step reads in its place."""
    collected: tuple[tuple[g.Ref, ...], ...]
    """Values of all steps, that one operation puts together behind the loop."""

    def nodes(self, module: g.Module, step: int) -> tuple[g.Node, ...]:
        first = self.start + step * self.period
        return module.nodes[first : first + self.period]

    @property
    def end(self) -> int:
        return self.start + self.count * self.period


def find_unrolled(module: g.Module, metas: Mapping[g.Ref, g.TensorMeta]) -> list[Unrolled]:
    """The loops of a module in their order; none is in another."""
    found: list[Unrolled] = []
    start = 0
    while start < len(module.nodes):
        loop = _loop_at(module, metas, start)
        if loop is None:
            start += 1
        else:
            found.append(loop)
            start = loop.end
    return found


def steps_written_out(graph: g.Graph) -> Iterator[tuple[str, str | None, int]]:
    """Each loop that is fixed to a number of steps: its module, its line, and the number.

    That is a loop of equal steps, or a module that takes an axis of an input apart, slice by slice to its end.
    """
    for module in graph.modules.values():
        metas = g.value_metas(module, graph.weights)
        loops = find_unrolled(module, metas)
        for loop in loops:
            sources = [node.source for node in loop.nodes(module, 0) if node.source]
            yield module.path, sources[0] if sources else module.source, loop.count
        if not loops:
            for source, count in taken_apart(module, metas):
                yield module.path, source, count


def _loop_at(module: g.Module, metas: Mapping[g.Ref, g.TensorMeta], start: int) -> Unrolled | None:
    nodes = module.nodes
    for period in range(1, (len(nodes) - start) // LEAST_STEPS + 1):
        if (
            nodes[start].op == nodes[start + period].op
            and nodes[start].target == nodes[start + period].target
        ):
            loop = _Steps(module, metas, start, period).loop()
            if loop is not None:
                return loop
    return None


@dataclass
class _Steps:
    """A guess that a loop starts at a node and has so many nodes in each step."""

    module: g.Module
    metas: Mapping[g.Ref, g.TensorMeta]
    start: int
    period: int
    advancing: set[tuple[int, tuple[int, ...]]] = field(default_factory=set)
    init: dict[g.Ref, g.Ref] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = {node.name: index for index, node in enumerate(self.module.nodes)}

    def loop(self) -> Unrolled | None:
        if not self._is_step(1) or not self.advancing:
            return None
        fixed = frozenset(self.advancing)
        count = 2
        while (count + 1) * self.period <= len(self.module.nodes) - self.start and self._is_step(count):
            if self.advancing != fixed:
                return None
            count += 1
        collected = self._collected(count) if count >= LEAST_STEPS else None
        if collected is None or not self._inits_fit():
            return None
        return Unrolled(self.start, self.period, count, fixed, dict(self.init), collected)

    def _is_step(self, step: int) -> bool:
        """Whether a step is as the one before it, but for what advances and what is carried."""
        seen: set[tuple[int, tuple[int, ...]]] = set()
        for place in range(self.period):
            before, node = self._node(step - 1, place), self._node(step, place)
            if (before.op, before.target, before.outputs) != (
                node.op,
                node.target,
                node.outputs,
            ) or node.bodies:
                return False
            if before.kwargs.keys() != node.kwargs.keys():
                return False
            for path, (old, new) in _leaves((before.args, before.kwargs), (node.args, node.kwargs)):
                kind = self._kind(step, place, path, old, new)
                if kind is None:
                    return False
                if kind == "advances":
                    seen.add((place, path))
        if step > 1 and seen != self.advancing:
            return False
        self.advancing = seen
        return True

    def _node(self, step: int, place: int) -> g.Node:
        return self.module.nodes[self.start + step * self.period + place]

    def _kind(self, step: int, place: int, path: tuple[int, ...], old: g.Arg, new: g.Arg) -> str | None:
        """How an argument of a step belongs to that of the step before; None if it does not."""
        if not isinstance(old, g.Ref) or not isinstance(new, g.Ref):
            if type(old) is type(new) and old == new:
                return "same"
            positions = _ADVANCING.get(self._node(step, place).op, set())
            is_index = type(old) is int and type(new) is int and path[:1] == (0,) and path[1] in positions
            return "advances" if is_index and len(path) == 2 and new == old + 1 > 0 else None
        back, own = self._step_of(new, step)
        if back is None:
            if old == new:
                return "same"
            is_next = old.name == new.name and new.index == old.index + 1
            return "advances" if is_next and self._is_unbound(new) else None
        if back == 0:
            return "own" if self._step_of(old, step - 1) == (0, own) and old.index == new.index else None
        if back != 1:
            return None
        if step == 1:
            carried = g.Ref(self._node(0, own).name, new.index)
            is_outside = self._step_of(old, 0)[0] is None
            return "carried" if is_outside and self.init.setdefault(carried, old) == old else None
        return "carried" if self._step_of(old, step - 1) == (1, own) and old.index == new.index else None

    def _step_of(self, ref: g.Ref, step: int) -> tuple[int | None, int]:
        """How many steps before a step a value was computed, and by which node; None if outside the loop."""
        place = self.places.get(ref.name, -1) - self.start
        if place < 0 or place >= (step + 1) * self.period:
            return None, -1
        return step - place // self.period, place % self.period

    def _is_unbound(self, ref: g.Ref) -> bool:
        place = self.places.get(ref.name)
        return place is not None and place < self.start and self.module.nodes[place].op == UNBIND

    def _inits_fit(self) -> bool:
        return all(self.metas.get(init) == self.metas.get(carried) for carried, init in self.init.items())

    def _collected(self, count: int) -> tuple[tuple[g.Ref, ...], ...] | None:
        """The lists of values of all steps; None if anything else is read behind the loop but what is carried."""
        end = self.start + count * self.period
        last = {
            g.Ref(self._node(count - 1, self.places[ref.name] - self.start).name, ref.index)
            for ref in self.init
        }
        lists = []
        for node in self.module.nodes[end:]:
            given: list[g.Arg] = [node.args, node.kwargs]
            if node.op in _COLLECTING and self._are_all_steps(node.args[0], count):
                lists.append(tuple(node.args[0]))
                given = [node.args[1:], node.kwargs]
            if any(self._is_inside(ref, end) and ref not in last for ref in g.refs(given)):
                return None
        if any(self._is_inside(ref, end) and ref not in last for ref in g.refs(list(self.module.outputs))):
            return None
        return tuple(dict.fromkeys(lists))

    def _is_inside(self, ref: g.Ref, end: int) -> bool:
        return self.start <= self.places.get(ref.name, -1) < end

    def _are_all_steps(self, refs: list[g.Ref], count: int) -> bool:
        if len(refs) != count or not all(isinstance(ref, g.Ref) for ref in refs):
            return False
        place = self.places.get(refs[0].name, -1) - self.start
        if not 0 <= place < self.period or len({self.metas.get(ref) for ref in refs}) != 1:
            return False
        return refs == [g.Ref(self._node(step, place).name, refs[0].index) for step in range(count)]


def _leaves(
    one: g.Arg, other: g.Arg, path: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], tuple[g.Arg, g.Arg]]]:
    """The leaves of two arguments side by side, with the path to each."""
    if isinstance(one, dict) and isinstance(other, dict):
        one, other = list(one.values()), list(other.values())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from _leaves(*pair, (*path, index))
    else:
        yield path, (one, other)
