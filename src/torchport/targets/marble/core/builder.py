"""Building a graph of neurons by hand, without a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchport.errors import NeuronError
from torchport.targets.marble.core.adding import Ids, NeuronGroup
from torchport.targets.marble.core.changes import Change
from torchport.targets.marble.core.core import Core
from torchport.targets.marble.groups import NeuronGraph


class GraphBuilder:
    """Inputs, groups, layers and synapses one after the other; `build` gives the graph.

    builder = GraphBuilder()
    x = builder.input(4)
    hidden = builder.linear_layer(x, weight, bias, activation="relu")
    core = builder.build(hidden)
    """

    def __init__(self, name: str = "graph") -> None:
        self._core = Core(NeuronGraph(name, (), (), ()), {})
        self._count = 0

    def input(self, *shape: int, name: str | None = None, dtype: str = "float32") -> NeuronGroup:
        """Neurons whose values are given in each run."""
        return self._made("add_input", name or self._named("input"), shape=list(shape), dtype=dtype)

    def add_neuron_group(
        self,
        size: int,
        *,
        name: str | None = None,
        activation: str | None = None,
        bias: Any = None,
        dtype: str = "float32",
    ) -> NeuronGroup:
        """Neurons without synapses. Each adds what arrives and its bias; then comes the activation, if there is one."""
        given = {"activation": activation, "bias": bias, "dtype": dtype}
        return self._core.add_neuron_group(size, name=name or self._named("group"), **given)

    def add_synapses(self, sources: Ids, targets: Ids, weights: Any) -> None:
        """A synapse from each source to the target at the same place. One source or target serves all."""
        self._core.add_synapses(sources, targets, weights)

    def connect(self, sources: Ids, targets: Ids, weights: Any) -> None:
        """A synapse from each source to each target; the weights have a row for each target."""
        self._core.connect(sources, targets, weights)

    def add_memory(self, sources: NeuronGroup, *, name: str | None = None) -> NeuronGroup:
        """Neurons that give what others were at the end of the step before."""
        return self._core.add_memory(sources, name=name or self._named("memory"))

    def linear_layer(
        self,
        source: NeuronGroup,
        weight: Any,
        bias: Any = None,
        *,
        activation: str | None = None,
        name: str | None = None,
    ) -> NeuronGroup:
        """A dense layer: the weight has a row for each neuron."""
        given = {"source": source.gives, "weight": weight, "bias": bias, "activation": activation}
        return self._made("linear_layer", name or self._named("linear"), **given)

    def conv2d_layer(
        self,
        source: NeuronGroup,
        weight: Any,
        bias: Any = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        activation: str | None = None,
        name: str | None = None,
    ) -> NeuronGroup:
        """A convolution of values of shape [channels, height, width]. Its weights are stored once."""
        given = {"source": source.gives, "weight": weight, "bias": bias, "activation": activation}
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return self._made("conv2d_layer", name or self._named("conv2d"), **given, **how)

    def build(self, *outputs: NeuronGroup) -> Core:
        """The graph, which gives the values of these groups."""
        if not outputs:
            raise NeuronError(
                "TP0904", "a graph without outputs computes nothing", fix="Name the groups that it gives."
            )
        self._core.change(Change("set_outputs", {"outputs": [group.gives for group in outputs]}))
        version = self._core.version
        return Core(version.graph, version.arrays)

    def _made(self, change: str, name: str, **given: Any) -> NeuronGroup:
        made: NeuronGroup = self._core.change(Change(change, {"name": name, **given}))
        return made

    def _named(self, what: str) -> str:
        self._count += 1
        return f"{what}{self._count}"
