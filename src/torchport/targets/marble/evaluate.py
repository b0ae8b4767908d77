"""Evaluating a neuron graph by groups, in the order of its steps.

An assembly is done by one operation of torch, which is fast, or, if it is opened, group by group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.targets.marble import works
from torchport.targets.marble.composer import Value, Weight
from torchport.targets.marble.groups import Assembly, Border, Group, Memory, NeuronGraph, Port, Step

Watch = Callable[[str, Tensor], Tensor]
"""Takes the key of a border and the value there, and gives the value to go on with."""
Compute = Callable[[Group, Sequence[Tensor], Mapping[str, Tensor], works.Sizes], list[Tensor]]
"""Does the work of one group."""


def by_groups(
    graph: NeuronGraph,
    arrays: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    *,
    watch: Watch = lambda key, value: value,
    opened: Collection[str] | None = (),
    state: dict[str, Tensor] | None = None,
    compute: Compute = works.compute,
) -> list[Tensor]:
    """The outputs of the graph. Assemblies in `opened` are done group by group; all of them if it is None.

    Memories begin with what `state` has under their names, and leave there what they are to give in the next run.
    """
    run = _Run(graph, arrays, inputs, watch, opened, state, compute)
    with torch.no_grad():
        return run.outputs()


class _Run:
    def __init__(
        self,
        graph: NeuronGraph,
        arrays: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
        watch: Watch,
        opened: Collection[str] | None,
        state: dict[str, Tensor] | None,
        compute: Compute,
    ) -> None:
        self.graph, self.arrays, self.watch, self.opened, self.state = graph, arrays, watch, opened, state
        self.compute = compute
        self.sizes = {size.name: inputs[size.input].shape[size.axis] for size in graph.free}
        self.values: dict[str, list[Tensor]] = {
            group.name: [value] for group, value in zip(graph.inputs, inputs, strict=True)
        }
        self.last = _last_uses(graph)

    def outputs(self) -> list[Tensor]:
        for index, step in enumerate(self.graph.steps):
            if isinstance(step, Border):
                self.values[step.name] = [self.watch(step.key, self._of(step.value))]
            elif isinstance(step, Memory):
                self.values[step.name] = [(self.state or {}).get(step.name, self._of(step.initial))]
            elif step.operation is not None and self.opened is not None and step.name not in self.opened:
                self.values[step.name] = self._at_once(step)
            else:
                self.values[step.name] = self._one_by_one(step)
            for name in self.last.get(index, ()):
                self.values.pop(name, None)
        if self.state is not None:
            self.state |= {memory.name: self._of(memory.source) for memory in self.graph.memories()}
        return [self._of(port) for port in self.graph.outputs]

    def _of(self, port: Port) -> Tensor:
        return self.values[port.group][port.index]

    def _at_once(self, step: Assembly) -> list[Tensor]:
        if step.operation not in _AT_ONCE and len(step.groups) == 1:
            return self._group(step.groups[0], {})
        assert step.operation is not None
        args, kwargs = (self._settled(given) for given in (step.args, step.kwargs))
        result = operations.overload(step.operation)(*args, **kwargs)
        return list(result) if isinstance(result, list | tuple) else [result]

    def _settled(self, given: Any) -> Any:
        def one(leaf: Any) -> Any:
            if isinstance(leaf, Value):
                return self._of(leaf.port)
            return self.arrays[leaf.name] if isinstance(leaf, Weight) else works.settled(leaf, self.sizes)

        return g.map_args(given, one)

    def _one_by_one(self, step: Assembly) -> list[Tensor]:
        inner: dict[str, list[Tensor]] = {}
        for group in step.groups:
            inner[group.name] = self._group(group, inner)
        return [
            inner[port.group][port.index] if port.group in inner else self._of(port) for port in step.outputs
        ]

    def _group(self, group: Group, inner: Mapping[str, list[Tensor]]) -> list[Tensor]:
        given = [
            inner[port.group][port.index] if port.group in inner else self._of(port) for port in group.inputs
        ]
        return self.compute(group, given, self.arrays, self.sizes)


_AT_ONCE = frozenset({"aten.div.Tensor"})
"""Operations that torch does more exactly than the one group that they are."""


def _last_uses(graph: NeuronGraph) -> dict[int, list[str]]:
    """The values that nobody reads after a step, by the step's index, so that they can be freed."""
    last: dict[str, int] = {}
    for index, step in enumerate(graph.steps):
        last[step.name] = index
        for port in reads(step):
            last[port.group] = index
    kept = {port.group for port in graph.outputs} | {memory.source.group for memory in graph.memories()}
    uses: dict[int, list[str]] = {}
    for name, index in last.items():
        if name not in kept:
            uses.setdefault(index, []).append(name)
    return uses


def reads(step: Step) -> list[Port]:
    """What must be known before a step can be done."""
    if isinstance(step, Border):
        return [step.value]
    if isinstance(step, Memory):
        return [step.initial]
    inside = {group.name for group in step.groups}
    ports = [port for group in step.groups for port in group.inputs if port.group not in inside]
    return ports + [port for port in step.outputs if port.group not in inside]
