"""One version of a neuron graph: it never changes, so whoever reads it sees a consistent graph, whatever others do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch import Tensor

from torchport.capture.graph import Device, map_args
from torchport.capture.torch_internals import storage_id
from torchport.errors import NeuronError
from torchport.targets.marble.arrivals import Arrivals, Place
from torchport.targets.marble.groups import MADE, Assembly, Flow, Form, Group, Memory, NeuronGraph, Port, Step
from torchport.targets.marble.program import Program, program_of
from torchport.targets.marble.synapses import Synapses, bias_of, synapses_from, synapses_of


@dataclass(frozen=True)
class Version:
    """A graph and its arrays. The arrays are shared by versions and never written to."""

    graph: NeuronGraph
    arrays: Mapping[str, Tensor]
    next_id: int
    number: int = 0
    """How many changes were made before it."""

    @cached_property
    def groups(self) -> dict[str, Group]:
        return {group.name: group for group in self.graph.groups()}

    @cached_property
    def step_of(self) -> dict[str, Step]:
        """The step that each group belongs to; inputs belong to none."""
        found: dict[str, Step] = {}
        for step in self.graph.steps:
            if isinstance(step, Assembly):
                found |= {group.name: step for group in step.groups}
            elif isinstance(step, Memory):
                found[step.group.name] = step
            elif isinstance(step, Flow):
                inside = [group for body in step.bodies.values() for group in body.groups()]
                found |= {group.name: step for group in (step.joint, *inside)}
        return found

    @cached_property
    def program(self) -> Program | None:
        """The graph as calls, for inputs of the example's sizes."""
        return program_of(self.graph, self.arrays)

    def apart(self, values: list[Tensor]) -> list[Tensor]:
        """The values, in memory of their own where they would share that of an array: users may write to them."""
        return [value.clone() if storage_id(value) in self._storages else value for value in values]

    @cached_property
    def _storages(self) -> frozenset[int]:
        return frozenset(storage_id(array) for array in self.arrays.values())

    @property
    def device(self) -> str:
        """Where the arrays are; the CPU if there are none."""
        return next(
            (str(array.device) for array in self.arrays.values() if array.device.type != "cpu"), "cpu"
        )

    def on(self, device: str) -> Version:
        """The same version with its arrays on a device, and operations that make values there."""
        if device == self.device:
            return self
        arrays = {name: array.to(device) for name, array in self.arrays.items()}
        return replace(self, graph=_on(self.graph, device), arrays=arrays)

    @cached_property
    def cpu_arrays(self) -> Mapping[str, Tensor]:
        """The arrays on the CPU, on which neurons are looked at and changed one by one."""
        return {name: array.cpu() for name, array in self.arrays.items()}

    @cached_property
    def arrivals(self) -> Arrivals:
        """Whose values arrive where."""
        return Arrivals(self.graph)

    def into(self, neuron: int) -> Synapses:
        """The synapses into a neuron. The one from its bias neuron is not among them."""
        self.place(neuron)
        return synapses_of(self.graph, self.cpu_arrays, neuron, self.arrivals)

    def out_of(self, neuron: int) -> Synapses:
        """The synapses that leave a neuron."""
        self.place(neuron)
        return synapses_from(self.graph, self.cpu_arrays, neuron, self.arrivals)

    def bias(self, neuron: int) -> Tensor | None:
        """The weight of the synapse from a neuron's bias neuron, if it has one."""
        return bias_of(self.graph, self.cpu_arrays, neuron, self.arrivals)

    def is_remembered(self, neuron: int) -> bool:
        """Whether a memory keeps the value of a neuron."""
        sources = [memory.source for memory in self.graph.memories()]
        return any(bool((self.arrivals.ids(port) == neuron).any()) for port in sources)

    def is_output(self, neuron: int) -> bool:
        """Whether the graph gives the value of a neuron."""
        return any(bool((self.arrivals.ids(port) == neuron).any()) for port in self.graph.outputs)

    def place(self, neuron: int) -> Place:
        """Where a neuron is. There is none if its id was never given, or if it was removed."""
        place = self.arrivals.find(neuron)
        if neuron - place.group.first in place.group.removed:
            raise NeuronError("TP0901", f"the neuron {neuron} of the group {place.group.name} was removed")
        return place

    def group(self, name: str) -> Group:
        if name not in self.groups:
            raise NeuronError("TP0901", f"there is no group {name!r}")
        return self.groups[name]

    def arrays_of(self, group: Group) -> dict[str, Tensor]:
        """The group's arrays, by what they are for."""
        return {purpose: self.arrays[name] for purpose, name in group.weights.items()}

    def form(self, port: Port) -> Form:
        """The form of what can be read at a port."""
        return self.arrivals.form(port)

    # Other versions

    def with_group(
        self, changed: Group, arrays: Mapping[str, Tensor] | None = None, *, is_same_work: bool = False
    ) -> Version:
        """Another group in the place of the one with its name.

        If it does other work, its assembly is no longer one operation of torch.
        """
        step = self.step_of[changed.name]
        if not isinstance(step, Assembly):
            raise NeuronError(
                "TP0904", f"the neurons of {changed.name} are part of control flow, which stays as it is"
            )
        groups = tuple(changed if group.name == changed.name else group for group in step.groups)
        operation = step.operation if is_same_work else None
        return self.with_step(replace(step, groups=groups, operation=operation), arrays)

    def with_step(self, changed: Step, arrays: Mapping[str, Tensor] | None = None) -> Version:
        steps = tuple(changed if step.name == changed.name else step for step in self.graph.steps)
        return self.with_steps(steps, arrays)

    def with_steps(self, steps: tuple[Step, ...], arrays: Mapping[str, Tensor] | None = None) -> Version:
        graph = replace(self.graph, steps=steps)
        return replace(self, graph=graph, arrays={**self.arrays, **(arrays or {})})

    def pruned_arrays(self) -> Version:
        """Without arrays that were made for groups which no longer use them."""
        used = {name for group in self.groups.values() for name in group.weights.values()}
        kept = {name: array for name, array in self.arrays.items() if name in used or MADE not in name}
        return replace(self, arrays=kept)


def _on(graph: NeuronGraph, device: str) -> NeuronGraph:
    def placed(leaf: Any) -> Any:
        return Device(device) if isinstance(leaf, Device) else leaf

    def changed(step: Assembly) -> Assembly:
        groups = tuple(replace(group, options=map_args(group.options, placed)) for group in step.groups)
        args, kwargs = map_args(step.args, placed), map_args(step.kwargs, placed)
        return replace(step, args=args, kwargs=kwargs, groups=groups)

    return graph.with_assemblies(changed)


def readable_port(version: Version, group: Group, result: int) -> tuple[Version, Port]:
    """Where the value of a group can be read by other steps; its assembly is opened if it was hidden inside."""
    step = version.step_of.get(group.name)
    if isinstance(step, Flow):
        if group.name != step.joint.name:
            raise NeuronError(
                "TP0904", f"the neurons of {group.name} are in a body of control flow, which has no way out"
            )
        return version, Port(step.name, result)
    if not isinstance(step, Assembly):
        return version, Port(group.name, result)
    wanted = Port(group.name, result)
    if wanted in step.outputs:
        return version, Port(step.name, step.outputs.index(wanted))
    opened = replace(step, operation=None, outputs=(*step.outputs, wanted))
    return version.with_step(opened), Port(step.name, len(step.outputs))
