"""A second look at what failed: values that eager PyTorch does not have, or that no kernel had to round, may be right.

- An operation of eager PyTorch that was taken apart for the backend, such as gelu, has parts of which eager has no
  value. If all that leaves the operation is right, a part that failed is excused.
- A fused kernel may go on with more digits than the value has that is kept, as a multiplication and an addition in one
  instruction do. What failed is then right if it is computed together with what it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchport.arithmetic.classes import Arithmetic
from torchport.debug.kernel_diff.computing import Mode, as_class, as_it_is, in_float64
from torchport.debug.kernel_diff.measuring import MeasuredGraph, attempt
from torchport.debug.kernel_diff.planning import leaving
from torchport.debug.kernel_diff.steps import Step, outputs_of
from torchport.parity.dtypes import name_of
from torchport.parity.judge import judge_by
from torchport.parity.rulebook import Judged, RuleBook
from torchport.trace.residual import residual

DEPTH = 2
"""How many operations before one may be computed together with it."""


@dataclass
class SecondLook:
    one: MeasuredGraph
    rules: RuleBook
    arithmetic: Arithmetic
    keeps_digits: bool | None
    """Whether kernels may go on with more digits than values have; None: on all devices but the CPU."""

    def excused(self, failed: Collection[str]) -> dict[str, str]:
        """By call of those that failed, why it is right all the same."""
        found = self._inside_of_others(failed)
        for name, (steps, outputs) in self._asked(failed).items():
            if (
                name not in found
                and self._may_keep_digits(outputs)
                and self._is_right_together(steps, outputs)
            ):
                found[name] = (
                    "it is right if it is computed together with what it reads, not rounded in between"
                )
        return found

    def _asked(self, failed: Collection[str]) -> dict[str, tuple[list[Step], list[torch.fx.Node]]]:
        plan = self.one.plan
        found = {name: (part.steps, part.outputs) for name, part in plan.parts.items() if name in failed}
        for step in plan.steps:
            if (name := plan.names[step.node.name]) in failed:
                found[name] = ([step], list(step.values))
        return found

    def _inside_of_others(self, failed: Collection[str]) -> dict[str, str]:
        plan, found = self.one.plan, dict[str, str]()
        returned = set(outputs_of(plan.graph))
        groups: dict[Any, list[Step]] = {}
        for step in plan.steps:
            groups.setdefault(step.whole, []).append(step)
        for steps in groups.values():
            outputs = leaving(steps, returned)
            inside = [step for step in steps if not set(step.values) & set(outputs)]
            inner = {plan.names[step.node.name] for step in inside} & set(failed)
            if inner and outputs and self._are_right(steps, outputs):
                why = f"it is inside of {steps[0].origin}, which gives what it should"
                found |= dict.fromkeys(inner, why)
        return found

    def _may_keep_digits(self, outputs: Sequence[torch.fx.Node]) -> bool:
        if self.keeps_digits is not None:
            return self.keeps_digits
        return any(node.meta["val"].device.type != "cpu" for node in outputs)

    def _is_right_together(self, steps: list[Step], outputs: list[torch.fx.Node]) -> bool:
        for _ in range(DEPTH):
            wider = self._with_what_they_read(steps)
            if len(wider) == len(steps):
                return False
            steps = wider
            if self._are_right(steps, outputs):
                return True
        return False

    def _with_what_they_read(self, steps: list[Step]) -> list[Step]:
        """The operations with those whose values they read, in the order of the graph."""
        read = {node for step in steps for node in step.node.all_input_nodes}
        own = {step.node for step in steps}
        return [
            step
            for step in self.one.plan.steps
            if step.node in own or (step.left_out is None and read & {step.node, *step.values})
        ]

    def _are_right(self, steps: Sequence[Step], outputs: Sequence[torch.fx.Node]) -> bool:
        """Whether several operations in a row, given what the backend gave them, end with what the backend has."""

        def row(mode: Mode) -> list[Any]:
            return self.one.computing.in_a_row(steps, outputs, mode)

        own, wide, coarse = (attempt(row, mode) for mode in (as_it_is, in_float64, as_class(self.arithmetic)))
        if own is None or wide is None:
            return False
        given = zip(outputs, own, wide, coarse or [None] * len(own), strict=True)
        return all(self._is_right(node, *values) for node, *values in given)

    def _is_right(self, node: torch.fx.Node, golden: Any, truth: Any, coarser: Any) -> bool:
        if node.name not in self.one.run.values:
            return False
        candidate, expected = self.one.run.values[node.name].cpu(), golden.cpu()
        rule = self.rules.own(Judged(node.name, name_of(expected.dtype), name_of(candidate.dtype)))
        return judge_by(rule, expected, candidate, residual(golden, truth), coarser)[1].passed
