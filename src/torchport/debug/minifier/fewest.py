"""The fewest operations that still fail: from a hint or by bisection to one operation, then outwards from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchport.debug.minifier.case import GraphCase, is_pick
from torchport.debug.minifier.checks import BackendCheck
from torchport.debug.minifier.cutting import all_exposed, cut, operations_in, operations_read_by
from torchport.debug.minifier.laboratory import Laboratory
from torchport.debug.minifier.recording import Recording
from torchport.debug.nodes import full_name

Node = torch.fx.Node
_MOST_HINTS = 2


@dataclass
class FewestOperations:
    """A search over the parts of one recorded graph, which as a whole is known to fail."""

    recording: Recording
    laboratory: Laboratory

    def find(self, hints: Sequence[str] = ()) -> GraphCase:
        """The smallest part that was found to fail; the whole graph if none does."""
        operations = operations_in(self.recording)
        tried: list[Node] = []
        for node in self._suspects(operations, hints):
            tried.append(node)
            if self._fails([node]):
                return self._case([node])
        if tried and (found := self._outwards(tried[0])) is not None:
            return self._case(found)
        return self._by_bisection(operations)

    def _suspects(self, operations: Sequence[Node], hints: Sequence[str]) -> Iterator[Node]:
        """The operations that the failure names, or else the first whose value is wrong if all are looked at."""
        owner = self.recording.case.module
        by_name = {node.name: node for node in owner.graph.nodes}
        named = [node for hint in hints if hint in by_name for node in _operations_at(by_name[hint])]
        if not named:
            called = {node: full_name(node, owner) for node in operations}
            by_op = [[node for node in operations if called[node] == hint] for hint in hints]
            named = [nodes[0] for nodes in by_op if len(nodes) == 1]
        yield from list(dict.fromkeys(named))[:_MOST_HINTS]
        if not named and (first := self._first_wrong(operations)) is not None:
            yield first

    def _first_wrong(self, operations: Sequence[Node]) -> Node | None:
        """The first operation whose value is wrong if the backend must give all, which may change what is fused."""
        laboratory, wanted = self.laboratory, self.laboratory.wanted
        check = laboratory.check
        if wanted is None or wanted.kind != "wrong value" or not isinstance(check, BackendCheck):
            return None
        exposed = all_exposed(self.recording, operations)
        if exposed is None:
            return None
        case, names = exposed
        laboratory.queries += 1
        wrong = laboratory.run(lambda: check.wrong_outputs(case)).value or []
        least = math.sqrt(max(1.0, wanted.mismatch.ratio if wanted.mismatch else 1.0))
        order = {f"output {index}": name for index, name in enumerate(names)}
        first = next((order.get(one.name) for one in wrong if one.ratio >= least), None)
        nodes = self.recording.case.module.graph.nodes
        return next((one for node in nodes if node.name == first for one in _operations_at(node)), None)

    def _by_bisection(self, operations: Sequence[Node]) -> GraphCase:
        end = self._shortest_prefix(operations)
        if end == len(operations) and not self._fails(operations):
            return self.recording.case
        found = self._outwards(operations[end - 1]) or self._reduced([], operations[:end])
        return self._case(found)

    def _shortest_prefix(self, operations: Sequence[Node]) -> int:
        """How many operations from the start it takes to fail: with one fewer, it does not."""
        passing, failing = 0, len(operations)
        while failing - passing > 1:
            middle = (passing + failing) // 2
            if self._fails(operations[:middle]):
                failing = middle
            else:
                passing = middle
        return failing

    def _outwards(self, node: Node) -> list[Node] | None:
        """An operation with as few as possible of those that lead to it; None if it does not fail even with all."""
        for chosen in _ever_more(node):
            if self._fails(chosen):
                return self._reduced([node], [one for one in chosen if one is not node])
        return None

    def _reduced(self, kept: list[Node], others: Sequence[Node]) -> list[Node]:
        """Delta debugging: of the others, ever smaller shares are left out as long as what is left fails."""
        others, shares = list(others), 2
        while others:
            size = math.ceil(len(others) / shares)
            starts = range(0, len(others), size)
            for start in starts:
                rest = others[:start] + others[start + size :]
                if self._fails([*kept, *rest]):
                    others, shares = rest, max(shares - 1, 2)
                    break
            else:
                if size == 1:
                    break
                shares = min(len(others), 2 * shares)
        return [*kept, *others]

    def _fails(self, nodes: Sequence[Node]) -> bool:
        return bool(nodes) and self.laboratory.fails(cut(self.recording, set(nodes)))

    def _case(self, nodes: Sequence[Node]) -> GraphCase:
        case = cut(self.recording, set(nodes))
        assert case is not None
        return case


def _operations_at(node: Node) -> list[Node]:
    """The operation that a node is, or takes a result of; for an input, one that reads it."""
    if is_pick(node):
        return operations_read_by(node)
    if node.op.startswith("call_"):
        return [node]
    return [user for user in node.users if user.op.startswith("call_") and not is_pick(user)][:1]


def _ever_more(node: Node) -> Iterator[list[Node]]:
    """A node with what leads to it, one step back, then two, four …, until all is there."""
    found, edge, steps = [node], [node], 1
    yield list(found)
    known: set[Any] = {node}
    while edge:
        for _ in range(steps):
            edge = [one for last in edge for one in operations_read_by(last) if one not in known]
            edge = list(dict.fromkeys(edge))
            known.update(edge)
            found += edge
        if edge or len(found) > 1:
            yield list(found)
        steps *= 2


def fewest_outputs(case: GraphCase, laboratory: Laboratory) -> GraphCase:
    """The case with one output, if one of its outputs is enough to fail."""
    (output,) = (node for node in case.module.graph.nodes if node.op == "output")
    results = [node.name for node in output.all_input_nodes]
    if len(results) < 2:
        return case
    wrong = laboratory.last_failure(case).mismatch
    first = [name for index, name in enumerate(results) if wrong and wrong.name == f"output {index}"]
    for name in dict.fromkeys([*first, *results]):
        smaller = _with_output(case, name)
        if laboratory.fails(smaller):
            return smaller
    return case


def _with_output(case: GraphCase, name: str) -> GraphCase:
    module = case.fresh_module()
    by_name = {node.name: node for node in module.graph.nodes}
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    output.args = ((by_name[name],),)
    for node in reversed(module.graph.nodes):
        if is_pick(node) and not node.users:
            module.graph.erase_node(node)
    module.recompile()
    return GraphCase(module, case.inputs)
