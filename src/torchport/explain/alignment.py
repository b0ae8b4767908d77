"""Two graphs of one layer side by side: which values of the reference the candidate computes, and which it does not.

In: both graphs with their weights, and the inputs. Out: an `Alignment`, which knows for each value of the reference the
candidate's, and the operation that is at fault, if that can be said for certain.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture.interpret import Interpreter
from torchport.capture.plan import make_plan
from torchport.explain.drill import unexplained
from torchport.explain.slice import upstream
from torchport.parity.metrics import Metrics, compare
from torchport.parity.tolerance import NoiseFloor, Verdict
from torchport.trace.residual import residual

CANNOT_COMPUTE = (RuntimeError, IndexError, ValueError, TypeError)
"""The exceptions that torch raises if shapes, types or numbers do not fit an operation."""
_MOST_LEFT = 0.01
"""The share of the squared error that may be left if a value of the candidate is said to make up all of it."""
_MOST_OPERATIONS = 8
_MOST_VALUES = 50
"""So many values of the candidate are tried as the result of an operation."""
_NEAR = 1e-2
"""Values that differ by more of their scale than this are not looked at more closely."""


@dataclass(frozen=True)
class Runnable:
    """A graph of one module, and the tensors that it runs on."""

    graph: g.Graph
    weights: Mapping[str, torch.Tensor]
    inputs: Sequence[torch.Tensor]

    def values(self, *, truth: bool = False) -> dict[g.Ref, torch.Tensor]:
        """Every input, weight and result; in float64 if `truth`."""
        run = _NotedRun(self, truth)
        run.run(self.inputs)
        return run.values()

    def outputs(self) -> list[torch.Tensor]:
        return _NotedRun(self).run(self.inputs)

    @cached_property
    def results(self) -> dict[str, Any]:
        """What each operation returns, by the name of its node."""
        run = _NotedRun(self)
        run.run(self.inputs)
        return run.results

    def outputs_with(self, node: str, result: torch.Tensor) -> list[torch.Tensor]:
        """The outputs if one operation had another result; only what depends on it is computed again."""
        others = self.graph.root.nodes
        kept = {name: one for name, one in self.results.items() if node not in upstream(others, [name])}
        return _NotedRun(self, results={**kept, node: result}).run(self.inputs)


class _NotedRun(Interpreter):
    """Runs a graph and notes what each operation returns; those that have results already are not computed."""

    def __init__(self, of: Runnable, truth: bool = False, results: Mapping[str, Any] | None = None):
        super().__init__(of.graph, of.weights, make_plan(of.graph), lambda _, value: value, truth=truth)
        self.of = of
        self.results = dict(results or {})

    def apply(self, node: g.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if node.name not in self.results:
            self.results[node.name] = super().apply(node, args, kwargs)
        return self.results[node.name]

    def values(self) -> dict[g.Ref, torch.Tensor]:
        root = self.of.graph.root
        found = {g.Ref(item.name): value for item, value in zip(root.inputs, self.of.inputs, strict=True)}
        found |= {g.Ref(node): self.of.weights[weight] for node, weight in root.params.items()}
        for name, result in self.results.items():
            several = result if isinstance(result, list | tuple) else [result]
            tensors = ((index, one) for index, one in enumerate(several) if isinstance(one, torch.Tensor))
            found |= {g.Ref(name, index): value for index, value in tensors}
        return found


@dataclass(frozen=True)
class Fault:
    """The operation of the reference that the candidate gets wrong, although it has its operands right."""

    node: g.Node
    counterpart: g.Ref
    """The value of the candidate that stands for its result."""
    metrics: Metrics
    verdict: Verdict
    additional: g.Node | None = None
    """The candidate's operation that spoils the result, if the candidate had it right before."""


@dataclass(frozen=True)
class Alignment:
    reference: Runnable
    candidate: Runnable

    @cached_property
    def golden(self) -> dict[g.Ref, torch.Tensor]:
        return self.reference.values()

    @cached_property
    def truth(self) -> dict[g.Ref, torch.Tensor]:
        return self.reference.values(truth=True)

    @cached_property
    def computed(self) -> dict[g.Ref, torch.Tensor]:
        return self.candidate.values()

    @cached_property
    def counterparts(self) -> dict[g.Ref, g.Ref]:
        """For each value of the reference that the candidate computes, too, the candidate's; inputs are both's."""
        found: dict[g.Ref, g.Ref] = {}
        for ref, golden in self.golden.items():
            for other, value in self.computed.items():
                if _may_be(golden, value) and self._judged(ref, value)[1].passed:
                    found[ref] = other
                    break
        return found

    def _judged(self, ref: g.Ref, value: torch.Tensor) -> tuple[Metrics, Verdict]:
        golden = self.golden[ref]
        metrics = compare(golden, value.reshape(golden.shape), residual(golden, self.truth[ref]))
        return metrics, NoiseFloor().judge(metrics)

    def fault(self, output: int, observed: torch.Tensor) -> Fault | None:
        """The operation at fault for an output, of which the candidate has `observed`; None if it is not certain.

        Its operands are values that the candidate has, too, and its result is one that it has not. If other operations
        come after it, a value of the candidate in the place of that result must make up all of the error.
        """
        last = self.reference.graph.root.outputs[output]
        if last in self.counterparts:
            return self._spoiled(last, output)
        unknown = self._unknown(last.name)
        first = [node for node in unknown if self._has_operands(node)]
        if len(unknown) == 1 and first:
            return self._as_fault(first[0], last, self.candidate.graph.root.outputs[output])
        for node in first[:_MOST_OPERATIONS]:
            counterpart = self._that_explains(node, output, observed)
            if counterpart is not None:
                return self._as_fault(node, g.Ref(node.name), counterpart)
        return None

    def _spoiled(self, last: g.Ref, output: int) -> Fault | None:
        """The fault if the candidate has the right value, and then computes one thing more."""
        given = self.candidate.graph.root.outputs[output]
        nodes = {node.name: node for node in self.reference.graph.root.nodes}
        more = next((node for node in self.candidate.graph.root.nodes if node.name == given.name), None)
        if last.name not in nodes or more is None:
            return None
        operands = [self.computed[ref] for ref in g.refs([more.args, more.kwargs])]
        if not any(_may_be(self.golden[last], one) and self._judged(last, one)[1].passed for one in operands):
            return None
        return replace(self._as_fault(nodes[last.name], last, given), additional=more)

    def _as_fault(self, node: g.Node, result: g.Ref, counterpart: g.Ref) -> Fault:
        value = self.computed[counterpart]
        if self.golden[result].numel() == value.numel():
            return Fault(node, counterpart, *self._judged(result, value))
        metrics = compare(self.golden[result], value)
        return Fault(node, counterpart, metrics, NoiseFloor().judge(metrics))

    def _unknown(self, last: str) -> list[g.Node]:
        """An operation and all that lead to it, up to values that the candidate has, in the order of the graph."""
        nodes = {node.name: node for node in self.reference.graph.root.nodes}
        waiting, found = [last], set()
        while waiting:
            name = waiting.pop()
            if name in nodes and name not in found:
                found.add(name)
                waiting += [
                    ref.name
                    for ref in g.refs([nodes[name].args, nodes[name].kwargs])
                    if ref not in self.counterparts
                ]
        return [node for node in nodes.values() if node.name in found]

    def _has_operands(self, node: g.Node) -> bool:
        """Whether the candidate has all operands. Weights count: one that is another's is found elsewhere."""
        params = self.reference.graph.root.params
        return all(ref in self.counterparts or ref.name in params for ref in g.refs([node.args, node.kwargs]))

    def _that_explains(self, node: g.Node, output: int, observed: torch.Tensor) -> g.Ref | None:
        """The value of the candidate that, as the result of an operation, makes the rest compute what was observed."""
        golden = self.golden.get(g.Ref(node.name))
        if golden is None or len(node.outputs) != 1:
            return None
        last = self.reference.graph.root.outputs[output]
        for ref in itertools.islice(self._likely(node, golden), _MOST_VALUES):
            value = self.computed[ref].reshape(golden.shape).to(golden.dtype)
            try:
                predicted = self.reference.outputs_with(node.name, value)[output]
            except CANNOT_COMPUTE:
                continue
            if unexplained(self.golden[last], observed, predicted) <= _MOST_LEFT:
                return ref
        return None

    def _likely(self, node: g.Node, golden: torch.Tensor) -> Iterator[g.Ref]:
        """The candidate's values of the same size: first the results of the same operation, then what is its own."""
        operations = {node.name: node.op for node in self.candidate.graph.root.nodes}
        shared = set(self.counterparts.values())
        alike = [
            ref
            for ref, value in self.computed.items()
            if value.numel() == golden.numel() and value.is_floating_point() == golden.is_floating_point()
        ]
        yield from sorted(alike, key=lambda ref: (operations.get(ref.name) != node.op, ref in shared))


def _may_be(golden: torch.Tensor, value: torch.Tensor) -> bool:
    """A quick look: whether two values are near each other, element by element, however they are shaped."""
    if golden.numel() != value.numel() or golden.dtype != value.dtype:
        return False
    if not golden.numel():
        return golden.shape == value.shape
    first, second = golden.detach().flatten(), value.detach().flatten()
    if not golden.is_floating_point():
        return torch.equal(first, second)
    finite = torch.isfinite(first) & torch.isfinite(second)
    if not finite.any():
        return True
    scale = first[finite].abs().max()
    return bool((first[finite] - second[finite]).abs().max() <= _NEAR * scale)
