"""A second look at what failed: values that eager PyTorch does not have, or that no kernel had to round, may be right.

- An operation of eager PyTorch that was taken apart for the backend, such as gelu, has parts of which eager has no
  value. If all that leaves the operation is right, a part that failed is excused, unless it has lost more than half of
  its digits: parts that are wrong may cancel out, as a wrong maximum does in a softmax.
- A fused kernel may go on with more digits than the value has that is kept, as a multiplication and an addition in one
  instruction do. What failed is then right if it is computed together with what it reads, but not if that loses so
  many digits that anything would be right.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.debug.kernel_diff.computing import Mode, as_class, as_it_is, in_float64
from torchport.debug.kernel_diff.measuring import MeasuredGraph, attempt
from torchport.debug.kernel_diff.planning import leaving
from torchport.debug.kernel_diff.steps import Step, outputs_of
from torchport.debug.kernel_diff.together import DEPTH, taken_apart, with_what_they_read
from torchport.debug.kernel_diff.values import is_right
from torchport.parity.dtypes import name_of, rounding_step
from torchport.parity.metrics import compare
from torchport.parity.rulebook import RuleBook
from torchport.parity.tolerance import Drift
from torchport.trace.residual import residual, widened

WIDEST = 4.0
"""How many times as far from the truth several operations in a row may be as the last of them alone."""


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
        for steps in taken_apart(plan.steps):
            outputs = leaving(steps, returned)
            inside = [step for step in steps if not set(step.values) & set(outputs)]
            inner = {
                name
                for step in inside
                if (name := plan.names[step.node.name]) in failed and self._has_half_its_digits(step)
            }
            if inner and outputs and self._are_right(steps, outputs):
                why = f"it is inside of {steps[0].origin}, which gives what it should"
                found |= dict.fromkeys(inner, why)
        return found

    def _has_half_its_digits(self, step: Step) -> bool:
        """Whether an operation is off by no more than errors may add up to, given what the backend gave it."""
        golden = attempt(lambda mode: self.one.computing.one(step, mode), as_it_is)
        given = [self.one.run.values.get(value.name) for value in step.values]
        return golden is not None and all(
            value is not None and Drift().judge(compare(own.cpu(), value.cpu())).passed
            for own, value in zip(golden, given, strict=True)
        )

    def _may_keep_digits(self, outputs: Sequence[torch.fx.Node]) -> bool:
        if self.keeps_digits is not None:
            return self.keeps_digits
        return any(node.meta["val"].device.type != "cpu" for node in outputs)

    def _is_right_together(self, steps: list[Step], outputs: list[torch.fx.Node]) -> bool:
        alone = self._floors(steps, outputs)
        for _ in range(DEPTH):
            wider = with_what_they_read(self.one.plan, steps)
            if len(wider) == len(steps):
                return False
            steps = wider
            if self._are_right(steps, outputs, rounded_once=True):
                return True
            floors = self._floors(steps, outputs)
            is_as_sharp = len(floors) == len(alone) > 0 and all(
                wide <= WIDEST * own for wide, own in zip(floors, alone, strict=True)
            )
            if is_as_sharp and self._are_right(steps, outputs):
                return True
        return False

    def _computed(self, steps: Sequence[Step], outputs: Sequence[torch.fx.Node], mode: Mode) -> list[Any]:
        """What several operations in a row end with, given what the backend gave them; none if that is not known."""
        return attempt(lambda how: self.one.computing.in_a_row(steps, outputs, how), mode) or []

    def _floors(self, steps: Sequence[Step], outputs: Sequence[torch.fx.Node]) -> list[float]:
        """How far eager PyTorch is from the truth at the end of several operations in a row."""
        own, wide = (self._computed(steps, outputs, mode) for mode in (as_it_is, in_float64))
        return [_floor(*pair) for pair in zip(own, wide, strict=False)]

    def _are_right(
        self, steps: Sequence[Step], outputs: Sequence[torch.fx.Node], *, rounded_once: bool = False
    ) -> bool:
        """Whether several operations in a row, given what the backend gave them, end with what the backend has.

        With `rounded_once`, they are held to the truth, rounded to the dtype at the end; else to eager PyTorch.
        """
        wide = self._computed(steps, outputs, in_float64)
        own = self._computed(steps, outputs, as_it_is)
        if not own or not wide:
            return False
        if rounded_once:
            own = [true.to(value.dtype) for true, value in zip(wide, own, strict=True)]
        coarse = [] if rounded_once else self._computed(steps, outputs, as_class(self.arithmetic))
        given = zip(outputs, own, wide, coarse or [None] * len(own), strict=True)
        return all(self._is_right(node, *values) for node, *values in given)

    def _is_right(self, node: torch.fx.Node, golden: Any, truth: Any, coarser: Any) -> bool:
        if node.name not in self.one.run.values:
            return False
        return is_right(self.rules, node.name, self.one.run.values[node.name], golden, truth, coarser)


def _floor(golden: Tensor, truth: Tensor) -> float:
    distance = residual(golden, truth)
    if distance is None or not golden.numel():
        return 0.0
    size = widened(golden.detach()).abs().nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()
    return max(
        float(distance.abs().double().square().mean().sqrt()),
        rounding_step(name_of(golden.dtype)) * float(size),
    )
