"""Two graphs of one layer side by side: which values of the reference the candidate computes, and which it does not.

In: both graphs with their weights, and the inputs. Out: an `Alignment`, which knows for each value of the reference the
candidate's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture.interpret import Interpreter
from torchport.capture.plan import make_plan
from torchport.explain.slice import downstream
from torchport.parity.metrics import Metrics, compare
from torchport.parity.tolerance import NoiseFloor, Verdict
from torchport.trace.residual import residual

CANNOT_COMPUTE = (RuntimeError, IndexError, ValueError, TypeError)
"""The exceptions that torch raises if shapes, types or numbers do not fit an operation."""
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

    def outputs_with(self, ref: g.Ref, value: torch.Tensor) -> list[torch.Tensor]:
        """The outputs if an input or the result of an operation were another; only what depends on it is computed."""
        root = self.graph.root
        inputs = [
            value if item.name == ref.name else given
            for item, given in zip(root.inputs, self.inputs, strict=True)
        ]
        depends = downstream(root.nodes, ref.name)
        kept = {name: one for name, one in self.results.items() if name not in depends}
        if ref.name in self.results:
            kept[ref.name] = value
        return _NotedRun(self, results=kept).run(inputs)


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
        for ref in self.golden:
            for other, value in self.computed.items():
                if self.is_right(ref, value):
                    found[ref] = other
                    break
        return found

    def is_right(self, ref: g.Ref, value: torch.Tensor) -> bool:
        """Whether a value is what the reference computes at `ref`, by the rule."""
        return may_be(self.golden[ref], value) and self.judged(ref, value)[1].passed

    def judged(self, ref: g.Ref, value: torch.Tensor) -> tuple[Metrics, Verdict]:
        golden = self.golden[ref]
        metrics = compare(golden, value.reshape(golden.shape), residual(golden, self.truth[ref]))
        return metrics, NoiseFloor().judge(metrics)


def may_be(golden: torch.Tensor, value: torch.Tensor) -> bool:
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
