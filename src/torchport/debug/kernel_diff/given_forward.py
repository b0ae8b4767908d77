"""A look at gradients that failed: each is judged given what the forward graph of the backend gave for it.

A gradient depends on what the forward pass has chosen, such as the elements of a ReLU that are kept. Where a value is
zero but for its arithmetic, eager PyTorch, and the truth, choose for themselves, and a whole row of a gradient is
another. If the backend's forward graph is right, the gradients are computed again from what it gave.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.debug.kernel_diff.computing import Computing, Mode, as_class, as_it_is, in_float64
from torchport.debug.kernel_diff.measuring import MeasuredGraph, attempt
from torchport.debug.kernel_diff.steps import outputs_of
from torchport.debug.kernel_diff.values import is_right
from torchport.parity.rulebook import NOISE_FLOOR, RuleBook

WHY = "it is right given what the backend's forward graph gave, which is right"


@dataclass
class GivenForward:
    """A model of one graph, forward and backward, whose backward pass always begins with the same gradients."""

    forward: MeasuredGraph
    backward: MeasuredGraph
    rules: RuleBook
    arithmetic: Arithmetic

    def excused(self, failed: Collection[str], given: Mapping[str, Tensor]) -> dict[str, str]:
        """Of the gradients that failed, by name, why they are right all the same. `given` has the backend's."""
        places = self._places(failed)
        if self.rules is not NOISE_FLOOR or not places or (computing := self._from_forward()) is None:
            return {}
        own, wide, coarse = (
            self._computed(computing, mode) for mode in (as_it_is, in_float64, as_class(self.arithmetic))
        )
        if own is None or wide is None or coarse is None:
            return {}
        return {
            name: WHY
            for name, place in places.items()
            if name in given and self._is_right(name, given[name], own[place], wide[place], coarse[place])
        }

    def _places(self, failed: Collection[str]) -> dict[str, int]:
        """By name, where the backward graph gives gradients: it has one for each input of the forward graph."""
        names = self.forward.plan.graph.names
        if len(names) != len(outputs_of(self.backward.plan.graph)):
            return {}
        return {
            name: place
            for place, name in enumerate(names)
            if name in failed and names.count(name) == 1 and name
        }

    def _from_forward(self) -> Computing | None:
        """The backward graph with what the backend's forward graph gave among its inputs; None if it gave nothing."""
        graph, outputs = self.backward.plan.graph, self.forward.plan.scope.outputs
        given, missing = self.forward.given_alone()
        if missing:
            return None
        saved = {node.name: one for node, one in zip(outputs, given, strict=True)}
        named = zip(graph.placeholders, graph.inputs, strict=True)
        inputs = tuple(_in_place_of(one, saved.get(node.name, one)) for node, one in named)
        return replace(self.backward.computing, graph=replace(graph, inputs=inputs))

    def _computed(self, computing: Computing, mode: Mode) -> Sequence[Any] | None:
        torch.manual_seed(0)
        return attempt(computing.whole, mode)

    def _is_right(self, name: str, given: Tensor, own: Any, true: Any, coarse: Any) -> bool:
        is_there = isinstance(own, Tensor) and own.shape == given.shape
        return is_there and is_right(self.rules, name, given, own, true, coarse)


def _in_place_of(eager: Any, given: Any) -> Any:
    """What the backend gave in the place of an input; eager PyTorch's if that is of another kind."""
    if not isinstance(eager, Tensor) or not isinstance(given, Tensor):
        return eager
    is_alike = (given.shape, given.dtype, given.device) == (eager.shape, eager.dtype, eager.device)
    return torch.empty_like(eager).copy_(given) if is_alike else eager
