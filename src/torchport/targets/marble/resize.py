"""A neuron graph for inputs of other sizes than those of the example.

The groups of an assembly are made for one size: a recurrent layer has groups for each step of time. So they are
composed again from the operation that they do.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from torchport.capture import graph as g
from torchport.capture.graph import dtype_name
from torchport.errors import ConvertError
from torchport.targets.marble import works
from torchport.targets.marble.composer import Composer, Value, Weight
from torchport.targets.marble.expansion import assembled, expanded
from torchport.targets.marble.groups import (
    Array,
    Assembly,
    Border,
    Flow,
    Form,
    Group,
    Memory,
    NeuronGraph,
    Port,
    Step,
)


def resized(
    graph: NeuronGraph, arrays: Mapping[str, Tensor], sizes: works.Sizes
) -> tuple[NeuronGraph, Mapping[str, Tensor]]:
    """The graph and its arrays for these free sizes."""
    return _Resizing(graph, arrays, sizes).run()


@dataclass
class _Resizing:
    graph: NeuronGraph
    arrays: Mapping[str, Tensor]
    sizes: works.Sizes
    forms: dict[Port, Form] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    made: dict[str, Tensor] = field(default_factory=dict)
    first: int = 0

    def run(self) -> tuple[NeuronGraph, Mapping[str, Tensor]]:
        graph = self._graph(self.graph)
        free = tuple(replace(size, example=self.sizes[size.name]) for size in self.graph.free)
        return replace(graph, free=free), ChainMap(self.made, dict(self.arrays))

    def _graph(self, graph: NeuronGraph) -> NeuronGraph:
        """The graph, or a body of control flow in it."""
        outer, self.steps = self.steps, []
        inputs = tuple(self._input(group) for group in graph.inputs)
        for step in graph.steps:
            if isinstance(step, Border):
                self.forms[Port(step.name)] = self.forms[step.value]
                self.steps.append(step)
            elif isinstance(step, Memory):
                self.steps.append(replace(step, group=self._placed(step.group, (self.forms[step.initial],))))
            elif isinstance(step, Flow):
                self._flow(step)
            else:
                self._assembly(step)
        steps, self.steps = self.steps, outer
        return replace(graph, inputs=inputs, steps=tuple(steps))

    def _flow(self, step: Flow) -> None:
        bodies = {role: self._graph(body) for role, body in step.bodies.items()}
        shapes = works.settled(step.joint.options["shapes"], self.sizes)
        dtypes = [form.dtype for form in step.joint.results]
        forms = [Form(tuple(shape), dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        self.steps.append(replace(step, bodies=bodies, joint=self._placed(step.joint, tuple(forms))))
        self._given(step, forms)

    def _input(self, group: Group) -> Group:
        (form,) = group.results
        shape = works.settled(group.options.get("shape", list(form.shape)), self.sizes)
        return self._placed(group, (Form(tuple(shape), form.dtype),))

    def _placed(self, group: Group, results: tuple[Form, ...]) -> Group:
        """A group with the next ids."""
        made = replace(group, results=results, first=self.first)
        self.first += len(made.ids)
        for index, form in enumerate(results):
            self.forms[Port(group.name, index)] = form
        return made

    def _assembly(self, step: Assembly) -> None:
        if step.operation is None:
            self._kept(step)
            return
        composer = Composer(step.key, step.layer, self.sizes, self.first)
        args, kwargs = (g.map_args(some, self._known) for some in (step.args, step.kwargs))
        results = expanded(composer, step.operation, args, kwargs)
        self.first, self.made = composer.first, self.made | composer.made
        self.steps.append(assembled(composer, step.operation, args, kwargs, results, step.source))
        self._given(step, [value.form for value in results])

    def _kept(self, step: Assembly) -> None:
        """Groups that no operation does: those of constants, which have no free size, stay as they are."""
        if any(group.inputs for group in step.groups):
            raise ConvertError(
                "TP0401",
                f"{step.name} was changed by hand, and is known for the sizes of the example only",
                where=step.layer or None,
                fix="give inputs of the sizes of the example",
            )
        groups = tuple(self._placed(group, group.results) for group in step.groups)
        self.steps.append(replace(step, groups=groups))
        self._given(step, [self.forms[port] for port in step.outputs])

    def _given(self, step: Assembly | Flow, forms: list[Form]) -> None:
        self.forms |= {Port(step.name, index): form for index, form in enumerate(forms)}

    def _known(self, leaf: Any) -> Any:
        if isinstance(leaf, Port):
            return Value(leaf, self.forms[leaf])
        if isinstance(leaf, Array):
            array = self.arrays[leaf.name]
            return Weight(leaf.name, Form(tuple(array.shape), dtype_name(array.dtype)))
        return leaf
