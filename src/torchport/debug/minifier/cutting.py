"""Cuts some operations out of a graph as a graph of their own: what they read of the others becomes inputs."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.debug.minifier.case import SEVERAL, GraphCase, is_pick, operations_of
from torchport.debug.minifier.recording import Recording

Nodes = Collection[torch.fx.Node]
_PLAIN = (type(None), bool, int, float, complex)


class _CannotBeInput(Exception):
    """A value is neither a tensor nor a number, so the operation that makes it cannot be left out."""


def cut(
    recording: Recording, chosen: Nodes, outputs: Sequence[torch.fx.Node] | None = None
) -> GraphCase | None:
    """The chosen operations alone, or None if they cannot be cut out.

    Their outputs are the values that none of them reads, and those that the whole graph returns, if not said otherwise.
    """
    whole = recording.case.module
    wanted = _with_ends_of_contexts(chosen)
    picks = {node for node in whole.graph.nodes if is_pick(node) and _source(node) in wanted}
    nodes = [node for node in whole.graph.nodes if node in wanted or node in picks]
    results = _results(whole.graph, nodes, wanted) if outputs is None else list(outputs)
    needed = _needed_picks(nodes, picks, results)
    builder = _Builder(recording, [node for node in nodes if node in wanted or node in needed])
    try:
        return builder.build(results)
    except _CannotBeInput:
        return None


def all_exposed(recording: Recording, chosen: Nodes) -> tuple[GraphCase, list[str]] | None:
    """The chosen operations with the value of every one as an output, and the names of these."""
    results = [
        node
        for node in recording.case.module.graph.nodes
        if (node in chosen or (is_pick(node) and _source(node) in chosen))
        and isinstance(recording.values[node.name], Tensor)
    ]
    case = cut(recording, chosen, results)
    return None if case is None else (case, [node.name for node in results])


def operations_read_by(node: torch.fx.Node) -> list[torch.fx.Node]:
    """The operations whose results a node reads, be it through a pick."""
    sources = (_source(one) if is_pick(one) else one for one in node.all_input_nodes)
    return [one for one in dict.fromkeys(sources) if one.op.startswith("call_")]


def _source(pick: torch.fx.Node) -> torch.fx.Node:
    source = pick.args[0]
    assert isinstance(source, torch.fx.Node)
    return _source(source) if is_pick(source) else source


def _results(graph: torch.fx.Graph, nodes: Sequence[torch.fx.Node], wanted: Nodes) -> list[torch.fx.Node]:
    """What a part returns: the values that the whole graph returns, and the results that nothing in the part reads."""
    inside = set(nodes)
    returned = {node for out in graph.nodes if out.op == "output" for node in out.all_input_nodes}
    found = []
    for node in nodes:
        readers = [user for user in node.users if user in inside]
        is_last = not any(not is_pick(user) or _is_read(user, inside) for user in readers)
        if node in returned or (is_last and node in wanted):
            picks = [user for user in readers if is_pick(user)]
            found += picks or [node]
    return list(dict.fromkeys(found))


def _is_read(pick: torch.fx.Node, inside: set[torch.fx.Node]) -> bool:
    return any(not is_pick(user) or _is_read(user, inside) for user in pick.users if user in inside)


def _needed_picks(
    nodes: Sequence[torch.fx.Node], picks: Nodes, results: Iterable[torch.fx.Node]
) -> set[torch.fx.Node]:
    """The picks that an operation or an output reads, and the picks that these read."""
    needed = {node for node in results if node in picks}
    for node in reversed(nodes):
        if node not in picks or node in needed:
            needed |= {one for one in node.all_input_nodes if one in picks}
    return needed


def _with_ends_of_contexts(chosen: Nodes) -> set[torch.fx.Node]:
    """The chosen nodes, and for each that enters a context the one that leaves it."""
    found = set(chosen)
    for node in chosen:
        if str(getattr(node.target, "__name__", node.target)).startswith("_enter_"):
            found |= set(node.users)
    return found


@dataclass
class _Builder:
    """Copies nodes into a new graph whose inputs are made as they turn out to be read."""

    recording: Recording
    nodes: Sequence[torch.fx.Node]
    graph: torch.fx.Graph = field(default_factory=torch.fx.Graph)
    made: dict[torch.fx.Node, Any] = field(default_factory=dict)
    inputs: list[Any] = field(default_factory=list)

    def build(self, results: Sequence[torch.fx.Node]) -> GraphCase | None:
        inside = set(self.nodes)
        for reader in self.nodes:
            for source in reader.all_input_nodes:
                if source not in inside and source not in self.made:
                    self.made[source] = self._given(source, reader)
        for node in self.nodes:
            self.made[node] = self._copy(node)
        outputs = [one for node in results for one in self._returned(node)]
        if not outputs:
            return None
        self.graph.output(tuple(outputs))
        return GraphCase(_module(self.recording.case.module, self.graph), tuple(self.inputs))

    def _given(self, source: torch.fx.Node, reader: torch.fx.Node) -> Any:
        """A value from outside: an attribute of the model as such, all else as inputs."""
        if source.op == "get_attr":
            return self._copy(source)
        return self._as_inputs(source.name, self.recording.read_by(reader, source))

    def _as_inputs(self, name: str, value: Any) -> Any:
        if isinstance(value, (Tensor, *_PLAIN)):
            with self._before_all_else():
                made = self.graph.placeholder(name)
            self.inputs.append(value)
            return made
        if isinstance(value, list | tuple):
            return type(value)(self._as_inputs(f"{name}_{index}", item) for index, item in enumerate(value))
        raise _CannotBeInput

    def _before_all_else(self) -> Any:
        """Inputs come first, in the order in which they are read; attributes come after them."""
        first = next((node for node in self.graph.nodes if node.op != "placeholder"), None)
        return nullcontext() if first is None else self.graph.inserting_before(first)

    def _copy(self, node: torch.fx.Node) -> torch.fx.Node:
        def mapped(value: Any) -> Any:
            return torch.fx.node.map_aggregate(
                value, lambda arg: self.made[arg] if isinstance(arg, torch.fx.Node) else arg
            )

        made = self.graph.create_node(node.op, node.target, mapped(node.args), mapped(node.kwargs), node.name)
        made.meta = {key: node.meta[key] for key in _KEPT if key in node.meta}
        made.meta[SEVERAL] = isinstance(self.recording.values[node.name], list | tuple)
        return made

    def _returned(self, node: torch.fx.Node) -> list[torch.fx.Node]:
        """The tensors and numbers of a result; what a node that gives none has written to, such as setitem."""
        value = self.recording.values[node.name]
        if isinstance(value, list | tuple):
            kept = [index for index, item in enumerate(value) if isinstance(item, Tensor)]
            return [self.graph.call_function(operator.getitem, (self.made[node], index)) for index in kept]
        if isinstance(value, Tensor):
            return [self.made[node]]
        written = node.args[0] if value is None and node.args else None
        if not isinstance(written, torch.fx.Node) or not isinstance(self.made[written], torch.fx.Node):
            return []
        return [self.made[written]]


_KEPT = ("stack_trace", "nn_module_stack", "fwd_nn_module_stack")


def _module(owner: torch.fx.GraphModule, graph: torch.fx.Graph) -> torch.fx.GraphModule:
    graph.lint()
    return torch.fx.GraphModule(owner, graph)


def operations_in(recording: Recording) -> list[torch.fx.Node]:
    return operations_of(recording.case.module.graph)
