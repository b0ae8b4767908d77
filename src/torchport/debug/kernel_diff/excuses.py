"""All looks at what failed: which calls are right all the same, and why."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from torchport.arithmetic.classes import Arithmetic
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.kernel_diff.choices_made import ChoicesMade
from torchport.debug.kernel_diff.given_forward import GivenForward
from torchport.debug.kernel_diff.measuring import MeasuredGraph
from torchport.debug.kernel_diff.planning import GraphPlan
from torchport.debug.kernel_diff.second_look import SecondLook
from torchport.debug.kernel_diff.values import Values
from torchport.parity.metrics import compare
from torchport.parity.tolerance import Drift
from torchport.trace.plan import output_key


@dataclass
class Excuses:
    root: str
    outputs: int
    """How many the model has."""
    plans: Sequence[GraphPlan]
    measured: Sequence[MeasuredGraph]
    values: Values
    config: ComparisonConfig
    arithmetic: Arithmetic

    def of(self, failed: Collection[str]) -> dict[str, str]:
        """By call of those that failed, why it is right all the same."""
        given = self.config.rules, self.arithmetic
        found: dict[str, str] = {}
        for one in self.measured:
            found |= SecondLook(one, *given, self.config.keeps_digits).excused(failed)
            found |= (choices := ChoicesMade(one, *given).excused(set(failed) - found.keys()))
            if self.root in failed and (why := choices.get(one.plan.scope.name)) and self._ends_with(one):
                found[self.root] = why
        left = set(failed) - found.keys()
        if (pair := self._forward_and_backward(left)) is not None:
            found |= GivenForward(*pair, *given).excused(left, self.values.candidate)
        return found

    def _ends_with(self, one: MeasuredGraph) -> bool:
        """Whether the model gives what a graph gives: eager PyTorch does, and the backend does at the same places."""
        candidate, keys = self.values.candidate, one.plan.scope.keys
        ends = [output_key(self.root, place) for place in range(self.outputs)]
        return all(
            end in candidate
            and any(
                key in candidate
                and torch.equal(candidate[end].cpu(), candidate[key].cpu())
                and self._are_alike(end, key)
                for key in keys
            )
            for end in ends
        )

    def _are_alike(self, end: str, key: str) -> bool:
        """Whether eager PyTorch gives the same at two places, but for the order of sums."""
        values = (self.values.own_golden[one].cpu() for one in (end, key))
        return Drift().judge(compare(*values)).passed

    def _forward_and_backward(self, failed: Collection[str]) -> tuple[MeasuredGraph, MeasuredGraph] | None:
        """The graphs of a model that has no others, if the forward one is right, and no loss is between them."""
        stages = [plan.graph.stage for plan in self.plans if plan.graph.runs == 1]
        is_pair = [one.plan.graph.stage for one in self.measured] == ["forward", "backward"] == stages
        if not is_pair or self.config.loss is not None:
            return None
        forward, backward = self.measured
        is_right = forward.plan.scope.name not in failed | self.values.uncompared.keys()
        return (forward, backward) if is_right else None
