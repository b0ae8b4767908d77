"""What the reference computes: its calls in order, and the value at every border of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from torchport.candidates.leaves import Path
from torchport.candidates.watching import Call
from torchport.trace.plan import Event

Mark = tuple[int, int]
"""Which tensor it is, and how often it had been written to."""


def mark_of(tensor: Tensor) -> Mark:
    return id(tensor), tensor._version


@dataclass
class Recording:
    """A probe that changes nothing. One tensor at two borders is one value."""

    calls: dict[str, Call] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    inputs: dict[str, list[Mark]] = field(default_factory=dict)
    outputs: dict[str, list[Mark]] = field(default_factory=dict)
    given_at: dict[str, list[Path]] = field(default_factory=dict)
    returned_at: dict[str, list[Path]] = field(default_factory=dict)
    """Where the inputs and outputs of each call are among its parameters and in its result."""
    values: dict[Mark, Tensor] = field(default_factory=dict)
    alive: list[Tensor] = field(default_factory=list)
    """Keeps tensors from being freed, so that no two have the same identity."""

    def enter(self, call: Call, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.calls[call.name] = call
        self.given_at[call.name] = places
        self.events.append(("enter", call.name))
        self.inputs[call.name] = [self._kept(tensor) for tensor in tensors]
        return tensors

    def leave(self, call: Call, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        self.events.append(("exit", call.name))
        self.returned_at[call.name] = places
        self.outputs[call.name] = [self._kept(tensor) for tensor in tensors]
        return tensors

    def _kept(self, tensor: Tensor) -> Mark:
        mark = mark_of(tensor)
        self.alive.append(tensor)
        if mark not in self.values:
            self.values[mark] = tensor.detach().clone()
        return mark


@dataclass(frozen=True)
class Step:
    """A call that is compared; `inputs` and `outputs` are trace keys."""

    name: str
    type: str
    inputs: Sequence[str]
    outputs: Sequence[str]
    source: str | None
    parent: str | None


@dataclass
class Plan:
    """The calls that are compared, and the golden value of each of their keys, by its own key or an alias."""

    root: str
    steps: dict[str, Step] = field(default_factory=dict)
    """In the order in which the calls end."""
    events: list[Event] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    values: dict[str, Tensor] = field(default_factory=dict)
    given_at: dict[str, list[Path]] = field(default_factory=dict)
    returned_at: dict[str, list[Path]] = field(default_factory=dict)

    def stored(self, key: str) -> str:
        return self.aliases.get(key, key)

    def value(self, key: str) -> Tensor:
        return self.values[self.stored(key)]


def input_keys(name: str, count: int) -> list[str]:
    return [f"{name}<{index}" for index in range(count)]


def output_keys(name: str, count: int) -> list[str]:
    return [name if index == 0 else f"{name}:{index}" for index in range(count)]


def make_plan(
    golden: Recording,
    compared: Callable[[str], bool],
    *,
    with_inputs: Callable[[str], bool] = lambda _: True,
    source: Callable[[Call], str | None] = lambda call: call.source,
) -> Plan:
    """The plan of the calls that `compared` picks; a call's parent is the nearest one that is picked, too."""
    root = next(iter(golden.calls))
    plan = Plan(root, given_at=golden.given_at, returned_at=golden.returned_at)
    owner: dict[Mark, str] = {}

    def keyed(keys: list[str], marks: list[Mark]) -> list[str]:
        for key, mark in zip(keys, marks, strict=True):
            first = owner.setdefault(mark, key)
            if first == key:
                plan.values[key] = golden.values[mark]
            else:
                plan.aliases[key] = first
        return keys

    inputs: dict[str, list[str]] = {}
    for kind, name in golden.events:
        if not compared(name):
            continue
        plan.events.append((kind, name))
        call = golden.calls[name]
        if kind == "enter":
            marks = golden.inputs[name] if with_inputs(name) else []
            inputs[name] = keyed(input_keys(name, len(marks)), marks)
        else:
            outputs = keyed(output_keys(name, len(golden.outputs[name])), golden.outputs[name])
            parent = call.parent
            while parent is not None and not compared(parent):
                parent = golden.calls[parent].parent
            plan.steps[name] = Step(name, call.type, inputs[name], outputs, source(call), parent)
    return plan
