"""Evaluating a neuron graph, in the order of its steps: by groups, or by messages.

An assembly is done by one operation of torch, which is fast, or, if it is opened, group by group. If the inputs have
other sizes than the example had, what is opened is composed again for those sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.capture.control_flow import CONTROL_FLOW, Bodies, Body
from torchport.capture.graph import dtype_name
from torchport.errors import CaptureError
from torchport.targets.marble import messages, works
from torchport.targets.marble.groups import (
    Array,
    Assembly,
    Border,
    Flow,
    Group,
    Memory,
    NeuronGraph,
    Port,
    Step,
    ports_of,
)
from torchport.targets.marble.resize import resized

Watch = Callable[[str, Tensor], Tensor]
"""Takes the key of a value and the value, and gives the value to go on with."""
Compute = Callable[[Group, Sequence[Tensor], Mapping[str, Tensor], works.Sizes], list[Tensor]]
"""Does the work of one group."""


def _as_it_is(key: str, value: Tensor) -> Tensor:
    return value


def by_groups(
    graph: NeuronGraph,
    arrays: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    *,
    watch: Watch = _as_it_is,
    watch_operations: Watch = _as_it_is,
    opened: Collection[str] | None = (),
    state: dict[str, Tensor] | None = None,
    compute: Compute = works.compute,
) -> list[Tensor]:
    """The outputs of the graph. Assemblies in `opened` are done group by group; all of them if it is None.

    `watch` sees what passes a border, `watch_operations` the result of each assembly that has one. Memories begin with
    what `state` has under their names, and leave there what they are to give in the next run.
    """
    sizes = _sizes(graph, inputs)
    _must_fit(graph, inputs, sizes)
    is_opened = opened is None or bool(opened)
    if is_opened and any(sizes[size.name] != size.example for size in graph.free):
        graph, arrays = resized(graph, arrays, sizes)
    with torch.no_grad():
        return _Run(graph, arrays, inputs, sizes, watch, watch_operations, opened, compute, state).outputs()


def _must_fit(graph: NeuronGraph, inputs: Sequence[Tensor], sizes: works.Sizes) -> None:
    """CaptureError if the inputs are not those that the graph was made for: only free sizes may be others."""
    for group, value in zip(graph.inputs, inputs, strict=True):
        (form,) = group.results
        wanted = works.settled(group.options.get("shape", list(form.shape)), sizes)
        if list(value.shape) != wanted or dtype_name(value.dtype) != form.dtype:
            raise CaptureError(
                "TP0208",
                f"the graph takes {group.name!r} as {form.dtype} {wanted}, and is given "
                f"{dtype_name(value.dtype)} {list(value.shape)}",
                fix="give inputs of that kind, or convert the model with example inputs of these",
            )


def _sizes(graph: NeuronGraph, inputs: Sequence[Tensor]) -> works.Sizes:
    """The free sizes of these inputs."""
    if len(inputs) != len(graph.inputs):
        raise CaptureError(
            "TP0208", f"the graph takes {len(graph.inputs)} tensors, and is given {len(inputs)}"
        )
    for size in graph.free:
        if inputs[size.input].ndim <= size.axis:
            raise CaptureError("TP0208", f"the input {graph.inputs[size.input].name!r} has too few axes")
    return {size.name: inputs[size.input].shape[size.axis] for size in graph.free}


def by_messages(
    graph: NeuronGraph,
    arrays: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    *,
    watch: Watch = _as_it_is,
    watch_operations: Watch = _as_it_is,
    state: dict[str, Tensor] | None = None,
    observe: messages.Observer | None = None,
) -> list[Tensor]:
    """The outputs of the graph, with every group done message by message."""
    device = inputs[0].device if inputs else torch.device("cpu")
    if device.type != "cpu":
        return _by_messages_on_cpu(graph, arrays, inputs, watch, watch_operations, state, observe)
    does = partial(messages.compute, observe=observe)
    watching = {"watch": watch, "watch_operations": watch_operations}
    return by_groups(graph, arrays, inputs, opened=None, state=state, compute=does, **watching)


def _by_messages_on_cpu(
    graph: NeuronGraph,
    arrays: Mapping[str, Tensor],
    inputs: Sequence[Tensor],
    watch: Watch,
    watch_operations: Watch,
    state: dict[str, Tensor] | None,
    observe: messages.Observer | None,
) -> list[Tensor]:
    """Messages are sent on the CPU; what comes from another device goes back there."""
    device = inputs[0].device

    def there(seen: Watch) -> Watch:
        return lambda key, value: seen(key, value.to(device)).cpu()

    held = None if state is None else {name: value.cpu() for name, value in state.items()}
    found = by_messages(
        graph,
        {name: array.cpu() for name, array in arrays.items()},
        [value.cpu() for value in inputs],
        watch=there(watch),
        watch_operations=there(watch_operations),
        state=held,
        observe=observe,
    )
    if state is not None and held is not None:
        state |= {name: value.to(device) for name, value in held.items()}
    return [value.to(device) for value in found]


class _Run:
    def __init__(
        self,
        graph: NeuronGraph,
        arrays: Mapping[str, Tensor],
        inputs: Sequence[Tensor],
        sizes: works.Sizes,
        watch: Watch,
        watch_operations: Watch,
        opened: Collection[str] | None,
        compute: Compute,
        state: dict[str, Tensor] | None,
    ) -> None:
        self.graph, self.arrays, self.sizes, self.state = graph, arrays, sizes, state
        self.watch, self.watch_operations = watch, watch_operations
        self.opened, self.compute = opened, compute
        self.values: dict[str, list[Tensor]] = {
            group.name: [value] for group, value in zip(graph.inputs, inputs, strict=True)
        }
        self.last = _last_uses(graph)

    def outputs(self) -> list[Tensor]:
        for index, step in enumerate(self.graph.steps):
            if isinstance(step, Border):
                self.values[step.name] = [self.watch(step.key, self._of(step.value))]
            elif isinstance(step, Flow):
                self.values[step.name] = self._flow(step)
            elif isinstance(step, Memory):
                self.values[step.name] = [(self.state or {}).get(step.name, self._of(step.initial))]
            else:
                self.values[step.name] = self._watched(step, self._assembly(step))
            for name in self.last.get(index, ()):
                self.values.pop(name, None)
        if self.state is not None:
            self.state |= {memory.name: self._of(memory.source) for memory in self.graph.memories()}
        return [self._of(port) for port in self.graph.outputs]

    def _of(self, port: Port) -> Tensor:
        return self.values[port.group][port.index]

    def _assembly(self, step: Assembly) -> list[Tensor]:
        is_opened = self.opened is None or step.name in self.opened
        if step.operation is None or (is_opened and step.outputs):
            return self._one_by_one(step)
        args, kwargs = (self._settled(given) for given in (step.args, step.kwargs))
        result = operations.overload(step.operation)(*args, **kwargs)
        return list(result) if isinstance(result, list | tuple) else [result]

    def _flow(self, step: Flow) -> list[Tensor]:
        """Control flow runs its bodies on their operands; nothing in them is watched."""
        kind = CONTROL_FLOW[step.operation]
        bodies = Bodies(
            {role: self._body(body) for role, body in step.bodies.items()},
            bool,
            lambda first: self._none_of(step.joint, first),
        )
        operands = self._settled(step.args)
        if step.operation == _ASSOCIATIVE_SCAN and (self.opened is None or self.opened):
            return _one_after_another(bodies["body"], *operands)
        return kind.run(bodies, *operands)

    def _body(self, body: NeuronGraph) -> Body:
        def run(operands: Sequence[Tensor]) -> list[Tensor]:
            watch = (_as_it_is, _as_it_is)
            return _Run(
                body, self.arrays, operands, self.sizes, *watch, self.opened, self.compute, None
            ).outputs()

        return run

    def _none_of(self, joint: Group, first: int) -> list[Tensor]:
        """The results from a position on if no step ran: they have a length of 0."""
        shapes = works.settled(joint.options["shapes"], self.sizes)
        return [
            torch.empty(shape, dtype=getattr(torch, form.dtype))
            for shape, form in zip(shapes[first:], joint.results[first:], strict=True)
        ]

    def _watched(self, step: Assembly, results: list[Tensor]) -> list[Tensor]:
        return [self.watch_operations(step.key, results[0])] if len(results) == 1 else results

    def _settled(self, given: Any) -> Any:
        def one(leaf: Any) -> Any:
            if isinstance(leaf, Port):
                return self._of(leaf)
            return self.arrays[leaf.name] if isinstance(leaf, Array) else works.settled(leaf, self.sizes)

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


_ASSOCIATIVE_SCAN = "torchport.associative_scan.default"


def _one_after_another(body: Body, xs: Sequence[Tensor], closed_over: Sequence[Tensor]) -> list[Tensor]:
    """An associative scan slice by slice: the neurons of its body are those of one slice.

    Torch takes many slices at a time, which is faster, and which only whole operations can do.
    """
    if not len(xs[0]):
        return [x.clone() for x in xs]
    steps = [[x[0] for x in xs]]
    for index in range(1, len(xs[0])):
        steps.append(body([*steps[-1], *(x[index] for x in xs), *closed_over]))
    return [torch.stack(values) for values in zip(*steps, strict=True)]


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
    if isinstance(step, Flow):
        return list(step.joint.inputs)
    inside = {group.name for group in step.groups}
    ports = [port for group in step.groups for port in group.inputs if port.group not in inside]
    ports += [port for port in step.outputs if port.group not in inside]
    return ports + list(ports_of([step.args, step.kwargs]))
