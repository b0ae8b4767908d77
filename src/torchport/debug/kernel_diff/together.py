"""Operations that are looked at together: parts of one that was taken apart for the backend, and what others read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from torchport.debug.kernel_diff.planning import GraphPlan
from torchport.debug.kernel_diff.steps import Step

DEPTH = 2
"""How many operations before one may be computed together with it."""


def with_what_they_read(plan: GraphPlan, steps: Iterable[Step]) -> list[Step]:
    """The operations with those whose values they read, in the order of the graph."""
    found = {step.node: step for step in steps}
    for read in {node for step in found.values() for node in step.node.all_input_nodes}:
        if (step := plan.step_of.get(read)) is not None and step.left_out is None:
            found[step.node] = step
    return sorted(found.values(), key=lambda step: plan.places[step.node])


def taken_apart(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """The operations of eager PyTorch that were taken apart for the backend, each as its parts."""
    for _, run in groupby(steps, lambda step: step.whole):
        parts = list(run)
        if any(step.op != step.origin for step in parts):
            yield from _repetitions(parts)


def _repetitions(parts: list[Step]) -> Iterator[list[Step]]:
    """Calls of one operation, one after the other on the same line, told apart by the pattern of their parts."""
    names = [step.op for step in parts]
    for length in range(1, len(parts) + 1):
        if len(parts) % length == 0 and names == names[:length] * (len(parts) // length):
            yield from (parts[start : start + length] for start in range(0, len(parts), length))
            return
