"""The operation that a rewritten layer gets wrong, as far as the values of both graphs tell for certain.

In: an alignment, an output that differs and what the candidate has there. Out: a `Fault`, or None. What is certain is
tested: the candidate's value in the place of the reference's must make up all of the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import torch

from torchport.capture import graph as g
from torchport.explain.alignment import Alignment
from torchport.explain.drill import unexplained
from torchport.explain.noted_run import CANNOT_COMPUTE
from torchport.explain.slice import upstream
from torchport.parity.metrics import Metrics, compare
from torchport.parity.tolerance import NoiseFloor, Verdict

_MOST_LEFT = 0.01
"""The share of the squared error that may be left if a value of the candidate is said to make up all of it."""
_MOST_OPERATIONS = 8
_MOST_VALUES = 50
"""So many values of the candidate are tried as the result of an operation."""


@dataclass(frozen=True)
class Fault:
    """The operation of the reference that the candidate gets wrong, although it has its operands right."""

    node: g.Node
    result: g.Ref
    """The value of the reference that is another in the candidate: the operation's result or, if an operand is spoiled
    on its way into the operation, that operand."""
    counterpart: g.Ref
    """The value that the candidate has in its place."""
    metrics: Metrics
    verdict: Verdict
    additional: g.Node | None = None
    """The candidate's operation that spoils the result, if the candidate had it right before."""


def find_fault(alignment: Alignment, output: int, observed: torch.Tensor) -> Fault | None:
    """The fault that an output of the reference's graph differs by; None if it is not certain."""
    return _Search(alignment, output, observed).fault()


@dataclass(frozen=True)
class _Search:
    """One output, and what the candidate computed there."""

    alignment: Alignment
    output: int
    observed: torch.Tensor

    @cached_property
    def nodes(self) -> dict[str, g.Node]:
        return {node.name: node for node in self.alignment.reference.graph.root.nodes}

    @cached_property
    def candidate_nodes(self) -> dict[str, g.Node]:
        return {node.name: node for node in self.alignment.candidate.graph.root.nodes}

    @cached_property
    def stands_for(self) -> dict[g.Ref, list[g.Ref]]:
        """For each value of the candidate that is one of the reference's, or several of other shapes, these."""
        found: dict[g.Ref, list[g.Ref]] = {}
        for ref, other in self.alignment.counterparts.items():
            found.setdefault(other, []).append(ref)
        return found

    @property
    def last(self) -> g.Ref:
        last: g.Ref = self.alignment.reference.graph.root.outputs[self.output]
        return last

    @property
    def given(self) -> g.Ref:
        """What the candidate gives as the output."""
        given: g.Ref = self.alignment.candidate.graph.root.outputs[self.output]
        return given

    def fault(self) -> Fault | None:
        """The operation that has its operands right and its result wrong, or one that the candidate adds.

        If other operations come after it, a value of the candidate in the place of that result must make up all of the
        error. A value that is right elsewhere is not computed wrongly: then the operation that reads it is at fault.
        """
        spoiled = self._spoiled()
        if spoiled is not None or self.last in self.alignment.counterparts:
            return spoiled
        unknown = self._unknown(self.last.name)
        first = [node for node in unknown if self._has_operands(node)]
        if len(unknown) == 1 and first:
            fault = self._as_fault(first[0], self.last, self.given)
            return None if self._is_elsewhere(first[0], self.given) else fault
        for node in first[:_MOST_OPERATIONS]:
            counterpart = self._that_explains(node)
            if counterpart is not None and self._is_elsewhere(node, counterpart):
                return self._reading(node, counterpart)
            if counterpart is not None:
                return self._as_fault(node, g.Ref(node.name), counterpart)
        return None

    def _is_elsewhere(self, node: g.Node, counterpart: g.Ref) -> bool:
        """Whether the candidate's value is right in another place; if it is an operand, the operation is left out."""
        known = self.stands_for.get(counterpart, [])
        return bool(known) and not {ref.name for ref in known} & _names_read(node)

    def _reading(self, node: g.Node, counterpart: g.Ref) -> Fault | None:
        """The fault if an operation reads `counterpart`, which is right elsewhere, in the place of a node's result."""
        readers = [one for one in self.nodes.values() if node.name in _names_read(one)]
        if len(readers) != 1:
            return None
        alike = [
            one
            for one in self.candidate_nodes.values()
            if one.op == readers[0].op
            and counterpart.name in _names_read(one)
            and g.Ref(one.name) not in self.stands_for
        ]
        if len(alike) != 1 or len(readers[0].outputs) != 1:
            return None
        return self._as_fault(readers[0], g.Ref(readers[0].name), g.Ref(alike[0].name))

    def _spoiled(self) -> Fault | None:
        """The fault if the candidate has a right value, and then computes something more, and goes on with that."""
        pairs = islice(self._right_and_then_wrong(), _MOST_VALUES)
        found = next((pair for pair in pairs if self._explains(*pair)), None)
        return None if found is None else self._as_spoiled(*found)

    def _right_and_then_wrong(self) -> Iterator[tuple[g.Ref, g.Ref]]:
        """Each value of the candidate that is none of the reference's, with those right ones that it is made of."""
        involved = upstream(self.candidate_nodes.values(), [self.given.name])
        values = self.alignment.computed
        for name, node in self.candidate_nodes.items():
            wrong = g.Ref(name)
            if name not in involved or wrong not in values or wrong in self.stands_for:
                continue
            for right in (ref for own in self._frontier(node) for ref in self.stands_for[own]):
                if (
                    right.name not in self.alignment.reference.graph.root.params
                    and self.alignment.golden[right].shape == values[wrong].shape
                    and self.alignment.golden[right].dtype == values[wrong].dtype
                ):
                    yield right, wrong

    def _frontier(self, node: g.Node) -> list[g.Ref]:
        """The nearest values that an operation of the candidate depends on and that are right."""
        waiting, found = list(g.refs([node.args, node.kwargs])), dict[g.Ref, None]()
        passed: set[g.Ref] = set()
        while waiting:
            ref = waiting.pop(0)
            if ref in self.stands_for:
                found[ref] = None
            elif ref.name in self.candidate_nodes and ref not in passed:
                passed.add(ref)
                maker = self.candidate_nodes[ref.name]
                waiting += g.refs([maker.args, maker.kwargs])
        return list(found)

    def _as_spoiled(self, right: g.Ref, wrong: g.Ref) -> Fault | None:
        """Named after the operation that computed the right value or, of an input, after one that reads it."""
        readers = (node for node in self.nodes.values() if right.name in _names_read(node))
        node = self.nodes.get(right.name) or next(readers, None)
        if node is None:
            return None
        more = self.candidate_nodes[wrong.name]
        return replace(self._as_fault(node, right, wrong), additional=more)

    def _as_fault(self, node: g.Node, result: g.Ref, counterpart: g.Ref) -> Fault:
        golden, value = self.alignment.golden[result], self.alignment.computed[counterpart]
        if golden.numel() == value.numel():
            return Fault(node, result, counterpart, *self.alignment.judged(result, value))
        metrics = compare(golden, value)
        return Fault(node, result, counterpart, metrics, NoiseFloor().judge(metrics))

    def _unknown(self, last: str) -> list[g.Node]:
        """An operation and all that lead to it, up to values that the candidate has, in the order of the graph."""
        waiting, found = [last], set()
        while waiting:
            name = waiting.pop()
            if name in self.nodes and name not in found:
                found.add(name)
                waiting += [
                    ref.name
                    for ref in g.refs([self.nodes[name].args, self.nodes[name].kwargs])
                    if ref not in self.alignment.counterparts
                ]
        return [node for node in self.nodes.values() if node.name in found]

    def _has_operands(self, node: g.Node) -> bool:
        """Whether the candidate has all operands. Weights count: one that is another's is found elsewhere."""
        params = self.alignment.reference.graph.root.params
        read = g.refs([node.args, node.kwargs])
        return all(ref in self.alignment.counterparts or ref.name in params for ref in read)

    def _that_explains(self, node: g.Node) -> g.Ref | None:
        """The value of the candidate that, as the result of an operation, makes the rest compute what was observed."""
        golden = self.alignment.golden.get(g.Ref(node.name))
        if golden is None or len(node.outputs) != 1:
            return None
        likely = islice(self._likely(node, golden), _MOST_VALUES)
        return next((ref for ref in likely if self._explains(g.Ref(node.name), ref)), None)

    def _explains(self, ref: g.Ref, counterpart: g.Ref) -> bool:
        """Whether the rest computes what was observed, with the candidate's value in the place of one of its own."""
        golden = self.alignment.golden[ref]
        value = self.alignment.computed[counterpart].reshape(golden.shape).to(golden.dtype)
        try:
            predicted = self.alignment.reference.outputs_with(ref, value)[self.output]
        except CANNOT_COMPUTE:
            return False
        return unexplained(self.alignment.golden[self.last], self.observed, predicted) <= _MOST_LEFT

    def _likely(self, node: g.Node, golden: torch.Tensor) -> Iterator[g.Ref]:
        """The candidate's values of the same size: first the results of the same operation, then what is its own."""
        alike = [
            ref
            for ref, value in self.alignment.computed.items()
            if value.numel() == golden.numel() and value.is_floating_point() == golden.is_floating_point()
        ]
        operations = {name: one.op for name, one in self.candidate_nodes.items()}
        yield from sorted(
            alike, key=lambda ref: (ref in self.stands_for, operations.get(ref.name) != node.op)
        )


def _names_read(node: g.Node) -> set[str]:
    return {ref.name for ref in g.refs([node.args, node.kwargs])}
