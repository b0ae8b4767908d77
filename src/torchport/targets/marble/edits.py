"""What a user changed in the groups of a neuron graph, and the same change made in the graph of a slice.

An assembly with a changed group is no longer what its operation does, so it is opened: its groups are done one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torchport.errors import UsageError
from torchport.targets.marble.groups import Assembly, Group, NeuronGraph, Port

Change = tuple[Assembly, Assembly]
"""An assembly as it was generated, and as it is now."""


def changes(generated: NeuronGraph, edited: NeuronGraph) -> list[Change]:
    """The assemblies that are no longer what was generated."""
    known = {step.name: step for step in generated.assemblies()}
    return [
        (known[step.name], step)
        for step in edited.assemblies()
        if step.name in known and step != known[step.name]
    ]


def with_changes_opened(generated: NeuronGraph, edited: NeuronGraph) -> NeuronGraph:
    """The edited graph, in which the groups of every changed or new assembly do the work, and not its operation."""
    known = {step.name: step for step in generated.assemblies()}
    return edited.with_assemblies(lambda step: _opened(step, known.get(step.name)))


def _opened(step: Assembly, before: Assembly | None) -> Assembly:
    if step == before:
        return step
    if before is not None and (step.groups, step.outputs) == (before.groups, before.outputs):
        raise UsageError(
            "TP0804",
            f"the operation of {step.key} was edited, and its groups were not",
            where=step.layer or None,
            fix="edit the groups: what they do is what is run",
        )
    return replace(step, operation=None, args=(), kwargs={})


def carried(made: Sequence[Change], graph: NeuronGraph) -> NeuronGraph | None:
    """The graph with the changes made in its assemblies; None if none of them can be made in it."""
    known = {_identity(before): (before, after) for before, after in made}

    def changed(step: Assembly) -> Assembly:
        change = known.get(_identity(step))
        return step if change is None else _as(step, *change)

    result = graph.with_assemblies(changed)
    return None if result == graph else result


def _identity(step: Assembly) -> tuple[object, ...]:
    """What an assembly has in common with that of the same operation in a slice."""
    return step.key.rpartition("/")[2], step.operation, step.source, len(step.groups)


def _as(step: Assembly, before: Assembly, after: Assembly) -> Assembly:
    """An assembly with the change from one of the same operation to another."""
    if [group.name for group in before.groups] != [group.name for group in after.groups]:
        return step
    places = dict(zip(_ports(before), _ports(step), strict=False))
    groups = [
        _changed(own, was, now, places)
        for own, was, now in zip(step.groups, before.groups, after.groups, strict=True)
    ]
    outputs = tuple(places.get(port, port) for port in after.outputs)
    return replace(step, groups=tuple(groups), outputs=outputs, operation=None, args=(), kwargs={})


def _changed(own: Group, was: Group, now: Group, places: dict[Port, Port]) -> Group:
    """A group with what differs between two others."""
    if was == now:
        return own
    fields = {
        name: getattr(now, name)
        for name in ("kind", "work", "options", "weights", "results")
        if getattr(now, name) != getattr(was, name)
    }
    if now.inputs != was.inputs:
        fields["inputs"] = tuple(places.get(port, port) for port in now.inputs)
    return replace(own, **fields)


def _ports(step: Assembly) -> list[Port]:
    """The values that the groups of an assembly read and give, in an order that does not depend on names."""
    found = [port for group in step.groups for port in group.inputs]
    found += [Port(group.name, index) for group in step.groups for index in range(len(group.results))]
    return found + list(step.outputs)
