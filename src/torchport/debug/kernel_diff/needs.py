"""Which of a backend's values are still needed, so that those of a large graph are never all there at once.

A value is needed until all calls are judged that may be looked at again with it: those that compute or read it, and
those that are right or wrong only together with others. What a call that is out of bounds needs is kept to the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from torchport.debug.kernel_diff.choosing import choice_of
from torchport.debug.kernel_diff.planning import GraphPlan
from torchport.debug.kernel_diff.steps import Step
from torchport.debug.kernel_diff.together import DEPTH, taken_apart, with_what_they_read

VALUES_BEFORE = 40
"""How many values before an operation may be what a kernel gives in the place of its own."""


class Needs:
    """By call, the names of the values that are needed as long as it is not known to be right."""

    def __init__(self, plan: GraphPlan) -> None:
        self._plan = plan
        self._all = {value.name for step in plan.steps for value in step.values}
        self._of = {name: frozenset(names) & self._all for name, names in self._by_call()}
        self._left = Counter(name for names in self._of.values() for name in names)
        self._left.update(self._to_the_end())

    def end(self, call: str) -> list[str]:
        """What nobody needs any more once a call is known to be right, or that it cannot be compared."""
        names = self._of.pop(call, frozenset())
        self._left.subtract(names)
        return [name for name in names if self._left[name] <= 0]

    def _by_call(self) -> Iterator[tuple[str, Iterable[str]]]:
        plan = self._plan
        together = {step.node: steps for steps in taken_apart(plan.steps) for step in steps}
        before: list[str] = []
        for step in plan.steps:
            steps = self._wider([*together.get(step.node, ()), step])
            yield plan.names[step.node.name], {*_values_of(steps), *before[-VALUES_BEFORE:]}
            before += [value.name for value in step.values]
        for part in plan.parts.values():
            yield part.name, _values_of(self._wider(part.steps))

    def _wider(self, steps: Sequence[Step]) -> Sequence[Step]:
        for _ in range(DEPTH):
            steps = with_what_they_read(self._plan, steps)
        return steps

    def _to_the_end(self) -> Iterator[str]:
        """What the graph gives and chooses, and what eager PyTorch goes on with when it computes the whole graph."""
        yield from (node.name for node in self._plan.scope.outputs)
        yield from (value.name for step in self._plan.steps if step.left_out for value in step.values)
        yield from (node.name for node in map(choice_of, self._plan.steps) if node is not None)


def _values_of(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        yield from (node.name for node in (*step.node.all_input_nodes, *step.values))
