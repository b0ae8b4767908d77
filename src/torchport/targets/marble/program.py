"""A neuron graph as a list of calls, for inputs of the example's sizes: what is the same in each run is done once.

It computes what `evaluate.by_groups` computes, without anybody who watches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.capture import operations
from torchport.capture.graph import dtype_name
from torchport.targets.marble import works
from torchport.targets.marble.groups import Array, Assembly, Border, Form, Group, NeuronGraph, Port

Values = list[Any]
Call = Callable[[Values], None]


def program_of(graph: NeuronGraph, arrays: Mapping[str, Tensor]) -> Program | None:
    """The graph as calls; None if a part of it, such as control flow or a memory, is decided while it runs."""
    if not all(isinstance(step, Assembly | Border) for step in graph.steps):
        return None
    return _Compiler(graph, arrays).program()


@dataclass(frozen=True)
class Program:
    forms: tuple[Form, ...]
    slots: int
    calls: tuple[tuple[Call, tuple[int, ...]], ...]
    """Each with the slots that nobody reads after it, which are freed."""
    outputs: tuple[int, ...]

    def fits(self, inputs: Sequence[Tensor]) -> bool:
        """Whether the inputs have the sizes and the dtypes of the example."""
        return len(inputs) == len(self.forms) and all(
            value.shape == form.shape and dtype_name(value.dtype) == form.dtype
            for value, form in zip(inputs, self.forms, strict=True)
        )

    def run(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        values: Values = [*inputs, *([None] * (self.slots - len(inputs)))]
        with torch.no_grad():
            for call, unread in self.calls:
                call(values)
                for slot in unread:
                    values[slot] = None
        return [values[slot] for slot in self.outputs]


@dataclass
class _Compiler:
    graph: NeuronGraph
    arrays: Mapping[str, Tensor]
    slots: dict[Port, int] = field(default_factory=dict)
    calls: list[tuple[Call, list[int]]] = field(default_factory=list)
    """Each with the slots that it reads and writes."""
    count: int = 0

    def program(self) -> Program:
        self.sizes = {free.name: free.example for free in self.graph.free}
        for group in self.graph.inputs:
            self._new(Port(group.name))
        for step in self.graph.steps:
            if isinstance(step, Border):
                self.slots[Port(step.name)] = self._slot(step.value)
            else:
                assert isinstance(step, Assembly)
                self._assembly(step)
        outputs = tuple(self._slot(port) for port in self.graph.outputs)
        forms = tuple(group.results[0] for group in self.graph.inputs)
        return Program(forms, self.count, tuple(self._with_unread(outputs)), outputs)

    def _with_unread(self, kept: tuple[int, ...]) -> Iterator[tuple[Call, tuple[int, ...]]]:
        last = {slot: index for index, (_, used) in enumerate(self.calls) for slot in used}
        for index, (call, used) in enumerate(self.calls):
            yield call, tuple({slot for slot in used if last[slot] == index and slot not in kept})

    def _new(self, port: Port) -> int:
        self.slots[port] = self.count
        self.count += 1
        return self.slots[port]

    def _slot(self, port: Port) -> int:
        return self.slots[port]

    def _assembly(self, step: Assembly) -> None:
        if step.operation is None:
            for group in step.groups:
                self._group(group)
            for index, port in enumerate(step.outputs):
                self.slots[Port(step.name, index)] = self._slot(port)
            return
        results = [self._new(Port(step.name, index)) for index in range(len(step.outputs))]
        function = operations.overload(step.operation)._op
        args = [_Filled.of(self, arg) for arg in step.args]
        kwargs = {name: _Filled.of(self, arg) for name, arg in step.kwargs.items()}
        read = [slot for arg in (*args, *kwargs.values()) for slot in arg.slots()]
        self.calls.append((_calling(function, args, kwargs, results), [*read, *results]))

    def _group(self, group: Group) -> None:
        given = [self._slot(port) for port in group.inputs]
        results = [self._new(Port(group.name, index)) for index in range(len(group.results))]
        arrays, sizes = self.arrays, self.sizes

        def call(values: Values) -> None:
            found = works.compute(group, [values[slot] for slot in given], arrays, sizes)
            for slot, value in zip(results, found, strict=True):
                values[slot] = value

        self.calls.append((call, [*given, *results]))


@dataclass(frozen=True)
class _Filled:
    """An argument: one that never changes, the value of a slot, or a list of both."""

    value: Any = None
    slot: int | None = None
    items: tuple[_Filled, ...] | None = None

    @classmethod
    def of(cls, compiler: _Compiler, arg: Any) -> _Filled:
        if isinstance(arg, Port):
            return cls(slot=compiler._slot(arg))
        if isinstance(arg, Array):
            return cls(compiler.arrays[arg.name])
        if isinstance(arg, list | tuple):
            items = tuple(cls.of(compiler, item) for item in arg)
            if any(item.is_open for item in items):
                return cls(items=items)
            return cls([item.value for item in items])
        return cls(works.settled(arg, compiler.sizes))

    @property
    def is_open(self) -> bool:
        return self.slot is not None or self.items is not None

    def slots(self) -> Iterator[int]:
        if self.slot is not None:
            yield self.slot
        for item in self.items or ():
            yield from item.slots()

    def settle(self, values: Values) -> Any:
        if self.slot is not None:
            return values[self.slot]
        return self.value if self.items is None else [item.settle(values) for item in self.items]


def _calling(function: Any, args: list[_Filled], kwargs: dict[str, _Filled], results: list[int]) -> Call:
    template = [arg.value for arg in args]
    plain = [(at, arg.slot) for at, arg in enumerate(args) if arg.slot is not None]
    lists = [(at, arg) for at, arg in enumerate(args) if arg.items is not None]
    fixed = {name: arg.value for name, arg in kwargs.items() if not arg.is_open}
    named = {name: arg for name, arg in kwargs.items() if arg.is_open}

    def call(values: Values) -> None:
        given = template.copy()
        for at, slot in plain:
            given[at] = values[slot]
        for at, arg in lists:
            given[at] = arg.settle(values)
        more = fixed if not named else fixed | {name: arg.settle(values) for name, arg in named.items()}
        found = function(*given, **more)
        if len(results) == 1 and not isinstance(found, list | tuple):
            values[results[0]] = found
        else:
            for slot, value in zip(results, found, strict=True):
                values[slot] = value

    return call
