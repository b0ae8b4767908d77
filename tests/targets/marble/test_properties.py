"""Whatever is built and changed, in whatever order: the graph computes what a plain list of its neurons computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from torchport.errors import NeuronError
from torchport.marble import Core, GraphBuilder, NeuronGroup

ACTIVATIONS: dict[str | None, Callable[[float], float]] = {
    None: lambda x: x,
    "relu": lambda x: max(x, 0.0),
    "tanh": math.tanh,
    "sin": math.sin,
}
WIDTH = 3
X = [0.5, -1.25, 2.0]


@dataclass
class Reference:
    """The same graph as a list of neurons: the synapses and the bias of each, and what it does with their sum."""

    bias: dict[int, float] = field(default_factory=dict)
    synapses: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    function: dict[int, tuple[int, str]] = field(default_factory=dict)

    def value(self, neuron: int) -> float:
        if neuron < WIDTH:
            return X[neuron]
        if neuron in self.function:
            source, name = self.function[neuron]
            return ACTIVATIONS[name](self.value(source))
        return self.bias[neuron] + sum(
            weight * self.value(source) for source, weight in self.synapses[neuron]
        )

    def add(self, group: NeuronGroup, biases: list[float], activation: str | None) -> None:
        for nth, neuron in enumerate(group.takes):
            self.bias[neuron], self.synapses[neuron] = biases[nth], []
            if activation is not None:
                self.function[group.gives[nth]] = (neuron, activation)


weights = st.floats(-2, 2, width=32)


class Changes(RuleBasedStateMachine):
    """Groups and synapses come and go; after each step the graph is compared with the list."""

    def __init__(self) -> None:
        super().__init__()
        builder = GraphBuilder()
        x = builder.input(WIDTH)
        out = builder.add_neuron_group(2, name="out", bias=[0.5, -0.5])
        builder.connect(x, out, 0.25)
        self.core: Core = builder.build(out)
        self.reference = Reference()
        self.reference.add(out, [0.5, -0.5], None)
        for neuron in out.takes:
            self.reference.synapses[neuron] = [(source, 0.25) for source in range(WIDTH)]
        self.out, self.groups = out, [x, out]
        self.before: list[tuple[dict[int, list[tuple[int, float]]], list[NeuronGroup]]] = []

    def _remember(self) -> None:
        copied = {neuron: list(some) for neuron, some in self.reference.synapses.items()}
        self.before.append((copied, list(self.groups)))

    @rule(size=st.integers(1, 3), activation=st.sampled_from(list(ACTIVATIONS)), bias=weights)
    @precondition(lambda self: len(self.groups) < 6)
    def add_group(self, size: int, activation: str | None, bias: float) -> None:
        self._remember()
        name = f"g{self.core.version.number}"
        made = self.core.add_neuron_group(size, name=name, activation=activation, bias=[bias] * size)
        self.reference.add(made, [bias] * size, activation)
        self.groups.append(made)

    @rule(data=st.data(), weight=weights)
    def add_synapse(self, data: st.DataObject, weight: float) -> None:
        source_group, target_group = (
            data.draw(st.sampled_from(self.groups)),
            data.draw(st.sampled_from(self.groups)),
        )
        source = data.draw(st.sampled_from(list(source_group.gives)))
        target = data.draw(st.sampled_from(list(target_group.takes)))
        seen = self.core.version
        try:
            self.core.add_synapses(source, target, weight)
        except NeuronError as error:
            assert error.code in ("TP0903", "TP0904")
            assert self.core.version is seen, "what was refused changed nothing"
            return
        self._remember()
        self.reference.synapses[target].append((source, weight))

    @rule(data=st.data())
    def remove_synapse(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from(list(data.draw(st.sampled_from(self.groups[1:])).takes)))
        known = self.core.synapses.of(target)
        if not known:
            return
        self._remember()
        index = data.draw(st.integers(0, len(known) - 1))
        self.core.remove_synapses([known[index].id])
        del self.reference.synapses[target][index]

    @rule(data=st.data())
    def prune(self, data: st.DataObject) -> None:
        bound = data.draw(st.floats(0, 1, width=32))
        self._remember()
        self.core.prune(below=bound)
        for neuron, some in self.reference.synapses.items():
            self.reference.synapses[neuron] = [(s, w) for s, w in some if not abs(w) < bound]

    @precondition(lambda self: self.before)
    @rule()
    def undo(self) -> None:
        self.core.undo()
        self.reference.synapses, self.groups = self.before.pop()

    @invariant()
    def computes_the_same(self) -> None:
        expected = [self.reference.value(neuron) for neuron in self.out.gives]
        inputs = torch.tensor(X)
        for found in (self.core.run(inputs)[0], self.core.run_by_messages(inputs)[0]):
            assert found.tolist() == pytest.approx(expected, rel=1e-4, abs=1e-4)

    @invariant()
    def has_the_same_synapses(self) -> None:
        for group in self.groups[1:]:
            for neuron in group.takes:
                found = [(one.source, one.weight) for one in self.core.synapses.of(neuron)]
                assert found == self.reference.synapses[neuron]
        here = [neuron for group in self.groups for neuron in group.takes if neuron >= WIDTH]
        functions = sum(len(group) for group in self.groups if group.takes != group.gives)
        total = sum(len(self.reference.synapses[neuron]) for neuron in here) + len(here) + functions
        assert len(self.core.synapses) == total


Changes.TestCase.settings = settings(
    max_examples=30, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
)
TestChanges = Changes.TestCase


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_synapses_in_any_order_make_the_layer_that_torch_computes(data: st.DataObject) -> None:
    sources, targets = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    matrix = torch.zeros(targets, sources)
    builder = GraphBuilder()
    x, y = builder.input(sources), builder.add_neuron_group(targets)
    pairs = [(source, target) for source in range(sources) for target in range(targets)]
    for source, target in data.draw(st.permutations(pairs)):
        weight = data.draw(weights)
        matrix[target, source] = weight
        builder.add_synapses(x.gives[source], y.takes[target], weight)
    core, value = builder.build(y), torch.randn(sources)
    torch.testing.assert_close(core.run(value)[0], matrix @ value)
    assert len(core.synapses) == len(pairs)
