"""The cause of what a kernel gets wrong, in words: hypotheses about the operation that give what the backend gave.

In: the report and what was measured. Out: the report, whose culprit has the hypotheses that hold. Each is computed from
the operands that the backend itself had, as for ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchport.capture import graph as g
from torchport.capture import operations
from torchport.capture.torch_internals import OpOverload
from torchport.debug.kernel_diff.computing import NotComputable
from torchport.debug.kernel_diff.measuring import MeasuredGraph
from torchport.debug.kernel_diff.needs import VALUES_BEFORE
from torchport.debug.kernel_diff.steps import Step
from torchport.events import Steps
from torchport.explain.bound_operation import BoundOperation
from torchport.explain.suggest import suggest_about
from torchport.runs.report import Report


def with_cause(report: Report, measured: Sequence[MeasuredGraph], steps: Steps) -> Report:
    """The report with the cause of its first divergence, if that is an operation and a hypothesis about it holds."""
    culprit = report.first_divergence
    if culprit is None or culprit.operation is None or culprit.key is None:
        return report
    try:
        with steps.step("explain", "looking for the cause"), torch.no_grad():
            found = [_bound(one, step, index) for one, step, index in _places(measured, culprit.key)]
            suggestions = tuple(one for operation in found for one in suggest_about(operation))
    except MemoryError:
        raise
    except Exception as error:  # The verdict stands, whatever goes wrong in looking for its cause.
        steps.say(f"the cause could not be found: {type(error).__name__}: {error}")
        return report
    explained = culprit.model_copy(update={"suggestions": suggestions})
    return report.model_copy(update={"first_divergence": explained, "seconds": dict(steps.seconds)})


def _places(measured: Sequence[MeasuredGraph], key: str) -> list[tuple[MeasuredGraph, Step, int]]:
    """Where a key is: the graph, the operation, and which of its results."""
    return [
        (one, step, index)
        for one in measured
        for step in one.plan.steps
        for index, own in enumerate(one.plan.keys(step))
        if own == key and step.values[index].name in one.run.values and _is_known(step.node.target)
    ]


def _is_known(target: Any) -> bool:
    return isinstance(target, OpOverload) and operations.is_operation(str(target))


def _bound(one: MeasuredGraph, step: Step, index: int) -> BoundOperation:
    """An operation with the operands that the backend had, and what it gave for one of the results."""
    node, value = step.node, step.values[index]

    def operand(read: torch.fx.Node) -> Any:
        return _on_cpu(one.computing.given(read))

    args, kwargs = (torch.fx.node.map_arg(given, operand) for given in (node.args, node.kwargs))

    def compute(**given: Any) -> Any:
        return _on_cpu(step.parts(node.target(**given))[index])  # type: ignore[operator]

    arguments = operations.bind(step.op, _as_lists(args), _as_lists(kwargs))
    return BoundOperation(
        node=_as_node(step),
        overload=compute,
        arguments=arguments,
        result=compute(**arguments),
        names={},
        observed=_on_cpu(one.run.values[value.name]),
        values=_values_before(one, step),
    )


def _as_node(step: Step) -> g.Node:
    def ref(read: torch.fx.Node) -> Any:
        return g.Ref(read.name)

    args: Any = torch.fx.node.map_arg(step.node.args, ref)
    kwargs: Any = torch.fx.node.map_arg(step.node.kwargs, ref)
    return g.Node(step.node.name, step.op, tuple(args), dict(kwargs), (), source=step.source)


def _values_before(one: MeasuredGraph, step: Step) -> dict[str, Tensor]:
    """The last values before an operation, by the names of their nodes."""
    names: list[str] = []
    for other in one.plan.steps:
        if other.node is step.node:
            break
        names += [value.name for value in other.values if value.name in one.run.values]
    found: dict[str, Tensor] = {}
    for node in one.plan.graph.module.graph.nodes:
        if node.name in names[-VALUES_BEFORE:]:
            try:
                found[node.name] = _on_cpu(one.computing.given(node))
            except NotComputable:
                continue
    return found


def _on_cpu(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, Tensor) else value


def _as_lists(tree: Any) -> Any:
    """Arguments of torch.fx, whose lists are of its own kind, as plain ones."""
    if isinstance(tree, dict):
        return {name: _as_lists(value) for name, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(_as_lists(value) for value in tree)
    return [_as_lists(value) for value in tree] if isinstance(tree, list) else tree
