"""The plan of a comparison: the model, its graphs, the calls of modules in them, and each operation as a call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch

from torchport.debug.kernel_diff.captured import CapturedGraph
from torchport.debug.kernel_diff.steps import ModuleCall, Step, outputs_of
from torchport.trace.plan import Call, Plan, operation_key, output_keys


@dataclass
class Part:
    """A call of a module, or a whole graph: the operations that it runs itself, and the tensors that leave it."""

    name: str
    type: str
    parent: str | None
    inside: tuple[ModuleCall, ...]
    steps: list[Step] = field(default_factory=list)
    children: list[Part | Step] = field(default_factory=list)
    outputs: list[torch.fx.Node] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        return output_keys(self.name, len(self.outputs))


@dataclass
class GraphPlan:
    """The part of the plan that is about one graph."""

    graph: CapturedGraph
    steps: list[Step]
    scope: Part
    parts: dict[str, Part]
    """The calls of modules, by name."""
    names: dict[str, str]
    """By the name of a step's node, the name of its call."""

    @cached_property
    def step_of(self) -> dict[torch.fx.Node, Step]:
        """By node, the operation that it is, or whose value it has."""
        return {node: step for step in self.steps for node in (step.node, *step.values)}

    @cached_property
    def places(self) -> dict[torch.fx.Node, int]:
        """By the node of an operation, how many are before it."""
        return {step.node: place for place, step in enumerate(self.steps)}

    def keys(self, step: Step) -> list[str]:
        return output_keys(self.names[step.node.name], len(step.values))


def plan_graph(graph: CapturedGraph, steps: list[Step], root: str, is_only: bool) -> GraphPlan:
    number = "" if is_only else f"graph_{graph.number} "
    prefix = number if graph.stage == "forward" else f"{number}backward of "
    scope = Part(f"{number}{graph.stage} graph", f"{graph.stage} graph", root, ())
    found = GraphPlan(graph, steps, scope, {}, {})
    for step in steps:
        part = _part(found, step.inside, prefix)
        part.steps.append(step)
        part.children.append(step)
        found.names[step.node.name] = operation_key(part.name, step.node.name)
    returned = {node for node in outputs_of(graph) if isinstance(node, torch.fx.Node)}
    scope.outputs = _computed_outputs(graph, steps)
    for part in found.parts.values():
        part.outputs = leaving(part.steps, returned)
    return found


def _part(plan: GraphPlan, inside: tuple[ModuleCall, ...], prefix: str) -> Part:
    """The innermost call around a step, which is added to the plan with all around it."""
    if not inside:
        return plan.scope
    name = f"{prefix}{inside[-1].name}"
    if name not in plan.parts:
        parent = _part(plan, inside[:-1], prefix)
        plan.parts[name] = part = Part(name, inside[-1].type, parent.name, inside)
        parent.children.append(part)
    return plan.parts[name]


def _computed_outputs(graph: CapturedGraph, steps: Sequence[Step]) -> list[torch.fx.Node]:
    """The tensors that the graph gives and computes itself, each once."""
    own = {value for step in steps if step.left_out is None for value in step.values}
    return list(dict.fromkeys(node for node in outputs_of(graph) if node in own))


def leaving(steps: Sequence[Step], returned: set[torch.fx.Node]) -> list[torch.fx.Node]:
    """The values of some operations that others read, or the graph gives."""
    own = {step.node for step in steps} | {value for step in steps for value in step.values}
    return [
        value
        for step in steps
        if step.left_out is None
        for value in step.values
        if value in returned or any(user not in own for user in value.users)
    ]


def add_to(plan: Plan, found: GraphPlan, uncompared: Collection[str]) -> list[str]:
    """Adds a graph to the plan, and gives the names of all its calls as they end, also of those not compared."""
    order: list[str] = []
    _add(plan, found, found.scope, uncompared, order)
    return order


def _add(plan: Plan, found: GraphPlan, part: Part, uncompared: Collection[str], order: list[str]) -> None:
    plan.events.append(("enter", part.name))
    for child in part.children:
        if isinstance(child, Part):
            _add(plan, found, child, uncompared, order)
            continue
        call = call_of_step(found, child, part.name)
        order.append(call.name)
        if call.name not in uncompared:
            add_call(plan, call)
    keys = [] if part.name in uncompared else part.keys
    source = next((step.source for step in part.steps if step.source is not None), None)
    path = part.inside[-1].path if part.inside else ""
    plan.calls[part.name] = Call(part.name, path, part.type, [], keys, source, part.parent)
    plan.events.append(("exit", part.name))
    order.append(part.name)


def call_of_step(found: GraphPlan, step: Step, parent: str) -> Call:
    path = step.inside[-1].path if step.inside else ""
    name = found.names[step.node.name]
    return Call(name, path, step.op, [], found.keys(step), step.source, parent)


def add_call(plan: Plan, call: Call) -> None:
    """Adds a call that makes no others."""
    plan.events += [("enter", call.name), ("exit", call.name)]
    plan.calls[call.name] = call
