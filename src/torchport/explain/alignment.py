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
from torchport.capture.plan import make_plan
from torchport.explain.noted_run import NotedRun
from torchport.explain.slice import downstream
from torchport.parity.metrics import Metrics, compare
from torchport.parity.tolerance import NoiseFloor, Verdict
from torchport.trace.residual import residual

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
        root = self.graph.root
        found = {g.Ref(item.name): value for item, value in zip(root.inputs, self.inputs, strict=True)}
        found |= {g.Ref(node): self.weights[weight] for node, weight in root.params.items()}
        for name, result in (self._run(truth=truth).results if truth else self.results).items():
            several = result if isinstance(result, list | tuple) else [result]
            tensors = ((index, one) for index, one in enumerate(several) if isinstance(one, torch.Tensor))
            found |= {g.Ref(name, index): value for index, value in tensors}
        return found

    def outputs(self) -> list[torch.Tensor]:
        return self._noted().run(self.inputs)

    @cached_property
    def results(self) -> dict[str, Any]:
        """What each operation returns, by the name of its node."""
        return self._run().results

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
        return self._noted(replaced=kept).run(inputs)

    def _run(self, *, truth: bool = False) -> NotedRun:
        noted = self._noted(truth=truth)
        noted.run(self.inputs)
        return noted

    def _noted(self, *, truth: bool = False, replaced: Mapping[str, Any] | None = None) -> NotedRun:
        """A run of the graph that has not begun."""
        return NotedRun(self.graph, self.weights, make_plan(self.graph), truth=truth, replaced=replaced)


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
        distance = residual(golden, self.truth[ref])
        metrics = compare(golden, value.reshape(golden.shape), distance, by_scale=True)
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
