"""The data model of a neuron graph: groups of neurons that do the same work, wired to each other.

A neuron has a number, its id. The neurons of a group have consecutive ids: a group is an array and not a heap of
objects. Five kinds of neuron compute something; inputs and constants only have a value. Views, slices and
concatenations are wiring: they say whose values arrive where, and have no neurons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from torchport.capture.graph import Dim


class Kind(StrEnum):
    """What the neurons of a group do with the values that arrive."""

    INPUT = "input"
    CONSTANT = "constant"
    MEMORY = "memory"
    WEIGHTED_SUM = "weighted sum"
    FUNCTION = "function"
    PRODUCT = "product"
    REDUCTION = "reduction"
    SELECTION = "selection"
    WIRING = "wiring"

    @property
    def has_neurons(self) -> bool:
        return self is not Kind.WIRING


MADE = "§"
"""In the names of arrays that the model does not have, as models hardly use it."""
ALONE = "bias"
"""The work of weighted sums whose synapses were all added one by one: they begin with their bias."""


@dataclass(frozen=True)
class Port:
    """What a group gives: `index` picks one of several results, as of a selection that gives values and places."""

    group: str
    index: int = 0


@dataclass(frozen=True)
class Array:
    """One of the graph's arrays, such as a weight of the model, by its name."""

    name: str


@dataclass(frozen=True)
class Form:
    """The shape and the dtype of one result of a group, for the example inputs."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class Group:
    """Neurons of one kind that do the same work, or a piece of wiring, which has none."""

    name: str
    kind: Kind
    work: str
    """What they do, such as `dense`, `relu`, `sum` or `gather`: a row of the table of their kind."""
    inputs: tuple[Port, ...]
    results: tuple[Form, ...]
    first: int
    """The id of the first neuron."""
    layer: str = ""
    """The layer of the model that the group belongs to."""
    options: dict[str, Any] = field(default_factory=dict)
    """Numbers that the work needs. A free size is a `Sym`."""
    weights: dict[str, str] = field(default_factory=dict)
    """The arrays that the work needs, from what each is for (`weight`, `bias`) to its name."""
    added: tuple[int, ...] = ()
    """The sizes of those inputs, the last ones, that are only for synapses added one by one (see `sparse`)."""
    removed: frozenset[int] = frozenset()
    """Neurons that are no longer there, counted from the group's first. Their ids are not given again."""

    @property
    def ids(self) -> range:
        """One for each element of each result, those of removed neurons included."""
        size = sum(form.size for form in self.results) if self.kind.has_neurons else 0
        return range(self.first, self.first + size)

    @property
    def neurons(self) -> int:
        """How many neurons there are."""
        return len(self.ids) - len(self.removed)

    @property
    def own_inputs(self) -> tuple[Port, ...]:
        """What arrives by the group's own work."""
        return self.inputs[: len(self.inputs) - len(self.added)]

    @property
    def added_inputs(self) -> tuple[Port, ...]:
        return self.inputs[len(self.inputs) - len(self.added) :]


@dataclass(frozen=True)
class Assembly:
    """Groups that belong together, such as those of a softmax, and the operation that does their work at once."""

    name: str
    operation: str | None
    """The full name of torch's operation; None if there is none that does what the groups do."""
    args: tuple[Any, ...]
    """As those of a node of a captured graph; a `Port` is the value of a group outside, an `Array` is a weight."""
    kwargs: dict[str, Any]
    groups: tuple[Group, ...]
    outputs: tuple[Port, ...]
    """Which groups inside give the results."""
    layer: str = ""
    source: str | None = None

    @property
    def key(self) -> str:
        """The key of the operation's value in a trace."""
        return self.name.removesuffix("!")


@dataclass(frozen=True)
class Border:
    """The place at which a layer begins or ends: what passes here is a value of the trace."""

    name: str
    key: str
    value: Port


@dataclass(frozen=True)
class Memory:
    """Neurons that give what another value was at the end of the run before, or `initial` if there was none."""

    group: Group
    initial: Port
    source: Port

    @property
    def name(self) -> str:
        return self.group.name


@dataclass(frozen=True)
class Flow:
    """Control flow: graphs of their own, of which values decide which is run and how often.

    The branches of a `torch.cond` are joined by a switch. The body of a loop is there once, and is run for each step.
    """

    name: str
    operation: str
    """Such as `torchport.cond.default`."""
    args: tuple[Any, ...]
    """The operands, in lists, as the operation takes them."""
    bodies: dict[str, NeuronGraph]
    """By their roles, such as `true` and `false`. They take their operands by position, and only those."""
    joint: Group
    """The neurons that have the results: selections, for what they pass on is decided by values."""
    layer: str = ""
    source: str | None = None

    @property
    def key(self) -> str:
        return self.name.removesuffix("!")


Step = Assembly | Border | Flow | Memory


@dataclass(frozen=True)
class FreeSize:
    """A size that inputs may choose: the input and the axis it is read from."""

    name: str
    input: int
    axis: int
    example: int


@dataclass(frozen=True)
class NeuronGraph:
    """Everything but the arrays: the steps in the order in which they can be computed."""

    name: str
    inputs: tuple[Group, ...]
    steps: tuple[Step, ...]
    outputs: tuple[Port, ...]
    free: tuple[FreeSize, ...] = ()

    def groups(self) -> Iterator[Group]:
        yield from self.inputs
        for step in self.steps:
            if isinstance(step, Assembly):
                yield from step.groups
            elif isinstance(step, Memory):
                yield step.group
            elif isinstance(step, Flow):
                for body in step.bodies.values():
                    yield from body.groups()
                yield step.joint

    def memories(self) -> Iterator[Memory]:
        return (step for step in self.steps if isinstance(step, Memory))

    def assemblies(self) -> Iterator[Assembly]:
        """All of them, those in the bodies of control flow included."""
        for step in self.steps:
            if isinstance(step, Assembly):
                yield step
            elif isinstance(step, Flow):
                for body in step.bodies.values():
                    yield from body.assemblies()

    def with_assemblies(self, change: Callable[[Assembly], Assembly]) -> NeuronGraph:
        """The graph with every assembly changed, those in the bodies of control flow included."""

        def changed(step: Step) -> Step:
            if isinstance(step, Assembly):
                return change(step)
            if not isinstance(step, Flow):
                return step
            bodies = {role: body.with_assemblies(change) for role, body in step.bodies.items()}
            return replace(step, bodies=bodies)

        return replace(self, steps=tuple(changed(step) for step in self.steps))

    @property
    def neurons(self) -> int:
        return sum(group.neurons for group in self.groups())


def evaluated(dims: tuple[Dim, ...], example: dict[str, int]) -> tuple[int, ...]:
    """A shape for the example inputs."""
    return tuple(dim if isinstance(dim, int) else dim.evaluate(example) for dim in dims)


def ports_of(arg: Any) -> Iterator[Port]:
    """Every value that an argument reads."""
    if isinstance(arg, Port):
        yield arg
    elif isinstance(arg, list | tuple):
        for item in arg:
            yield from ports_of(item)
    elif isinstance(arg, dict):
        yield from ports_of(list(arg.values()))
