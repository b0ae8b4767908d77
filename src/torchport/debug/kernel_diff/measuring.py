"""From what a backend gave for a graph to verdicts: its values are held against eager's from the same inputs, how far
that is from float64, and eager's from the beginning.

All goes along with the graph, so that no more is held of it than has yet to be judged, or has to be looked at again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.debug.kernel_diff.candidate import CandidateRun, why_unusable
from torchport.debug.kernel_diff.computing import Computing, Mode, Row, as_class, as_it_is
from torchport.debug.kernel_diff.needs import Needs
from torchport.debug.kernel_diff.planning import GraphPlan, Part
from torchport.debug.kernel_diff.random_draws import Draws, draws_as_eager, dropped, is_dropout
from torchport.debug.kernel_diff.reference import ReferenceValues
from torchport.debug.kernel_diff.steps import Step, outputs_of
from torchport.debug.kernel_diff.truth import InFloat64
from torchport.debug.kernel_diff.values import Store, Value, Values

Compute = Callable[[Mode], list[Any]]


@dataclass
class MeasuredGraph:
    """One graph with what the backend gave for it. Everything else is computed from that."""

    plan: GraphPlan
    run: CandidateRun
    values: Values
    store: Callable[[], Store]
    reference: ReferenceValues | None = None
    """What another backend than eager PyTorch computes, if that is the reference."""
    draws_as_eager: bool = True
    """Whether its random numbers, if there are any, are those that eager PyTorch draws."""
    equal: int = 0
    """How many operations give, bit by bit, what eager PyTorch gives from the same inputs."""

    def __post_init__(self) -> None:
        self.computing = Computing(self.plan.graph, self.plan.steps, self.run.values)
        self.chained = self.store()
        """By node, what eager PyTorch computes from the inputs of the graph, until it is compared."""
        self._needs, self._row, self._draws = Needs(self.plan), Row(self.computing), Draws()
        self._steps = deque(self.plan.steps)
        self._parts = {part.steps[-1].node: part for part in self.plan.parts.values() if part.steps}
        """By the last of its operations, each module that has yet to be judged."""
        compared: list[Sequence[torch.fx.Node]] = [step.values for step in self.plan.steps]
        compared += [part.outputs for part in self.plan.parts.values()]
        self._to_compare = Counter(node.name for nodes in compared for node in nodes)

    def measure(self, until: torch.fx.Node | None = None) -> None:
        """Judges the operations and modules up to that which gives a value, or all that are left."""
        self._compute_chain(until)
        if self.reference is not None:
            self._ask(self.reference)
        while self._steps:
            step = self._steps.popleft()
            self._end(self.plan.names[step.node.name], step.values, self._measure_step(step))
            if (part := self._parts.pop(step.node, None)) is not None:
                self._end(part.name, part.outputs, self._measure_part(part))
            if until in step.values:
                return

    def finish(self) -> None:
        """Judges the outputs of the graph as it is left alone."""
        self.draws_as_eager = draws_as_eager(self.computing)
        self._measure_graph()

    @property
    def compared(self) -> int:
        """How many operations are compared with eager PyTorch."""
        return sum(step.left_out is None for step in self.plan.steps)

    def give_up(self, why: str) -> None:
        """Notes why nothing of what is left is compared."""
        names = [self.plan.names[step.node.name] for step in self._steps]
        names += [part.name for part in self._parts.values()]
        self.values.uncompared |= dict.fromkeys((*names, self.plan.scope.name), why)

    def _end(self, call: str, nodes: Sequence[torch.fx.Node], is_done: bool) -> None:
        """Lets go of what only this call was compared with, and, if it need not be looked at again, was computed of."""
        for name in (node.name for node in nodes):
            self._to_compare[name] -= 1
            if not self._to_compare[name] and name in self.chained:
                del self.chained[name]
        for name in self._needs.end(call) if is_done else ():
            if name in self.run.values:
                del self.run.values[name]

    def emulated(self, arithmetic: Arithmetic, calls: Collection[str]) -> dict[str, Tensor]:
        """By key, what eager PyTorch gives in a class of arithmetic, for some of the calls in this graph."""
        mode = as_class(arithmetic)
        found: dict[str, Tensor] = {}
        for name, (keys, compute) in self._computed_as().items():
            if name in calls:
                found |= _named(keys, attempt(compute, mode))
        return found

    def _computed_as(self) -> dict[str, tuple[list[str], Compute]]:
        """By call, its keys, and how eager PyTorch computes them from what the backend gave."""
        compared = [step for step in self.plan.steps if step.left_out is None]
        return {
            **{
                self.plan.names[step.node.name]: (self.plan.keys(step), partial(self.computing.one, step))
                for step in compared
            },
            **{part.name: (part.keys, partial(self._in_a_row, part)) for part in self.plan.parts.values()},
            self.plan.scope.name: (self.plan.scope.keys, partial(self.outputs, self.computing)),
        }

    def _in_a_row(self, part: Part, mode: Mode) -> list[Any]:
        return self.computing.in_a_row(part.steps, part.outputs, mode)

    def _compute_chain(self, until: torch.fx.Node | None) -> None:
        try:
            with self._draws.going_on(), torch.no_grad():
                self._row.go_on(until, self._keep_chained)
        except Exception as error:
            self._row.nodes.clear()
            self.values.uncompared[self.plan.scope.name] = _said(error)

    def _keep_chained(self, name: str, value: Any) -> None:
        if self._to_compare[name]:
            self.chained[name] = value
        elif not isinstance(value, tuple | list):
            self.computing.plain[name] = value

    def _ask(self, reference: ReferenceValues) -> None:
        try:
            torch.manual_seed(0)
            reference.compute(self.plan, self.computing)
            self.chained = reference.chained
        except Exception as error:
            self.values.uncompared[self.plan.scope.name] = _said(error)

    def _measure_step(self, step: Step) -> bool:
        """Whether nobody has to look at an operation again: it is right, or is not compared."""
        name, keys = self.plan.names[step.node.name], self.plan.keys(step)
        if step.left_out is not None:
            return self._measure_left_out(step)
        for key, value in zip(keys, step.values, strict=True):
            if value.name in self.run.reasons:
                self.values.reasons[key] = self.run.reasons[value.name]
        own = self._own(name, keys, partial(self.computing.one, step))
        if own is None or (is_right := self._judge(name, keys, step.values, own)) is None:
            return True
        given = (self.run.values[value.name] for value in step.values if value.name in self.run.values)
        self.equal += all(_is_equal(*pair) for pair in zip(given, own[0], strict=False))
        return is_right

    def _measure_left_out(self, step: Step) -> bool:
        """Of an operation that is not compared, a dropout: what it makes of the elements that it keeps."""
        name, keys = self.plan.names[step.node.name], self.plan.keys(step)
        is_given = all(value.name in self.run.values for value in step.values)
        if is_dropout(step) and is_given:
            own = self._own(name, keys, partial(dropped, self.computing, step), is_of_eager=True)
            is_right = None if own is None else self._judge(name, keys, step.values, own)
            if is_right is not None:
                return is_right
        self.values.uncompared.setdefault(name, step.left_out or "")
        return True

    def _measure_part(self, part: Part) -> bool:
        if not part.outputs:
            return True
        missing = [node.name for node in part.outputs if node.name in self.run.reasons]
        if missing:
            self.values.uncompared[part.name] = f"the backend gives no value for {missing[0]}"
            return True
        own = self._own(part.name, part.keys, partial(self._in_a_row, part))
        return own is None or self._judge(part.name, part.keys, part.outputs, own) is not False

    def _measure_graph(self) -> None:
        """The outputs of the graph if nothing is observed, against what eager makes of the same inputs."""
        scope = self.plan.scope
        own = self._own(scope.name, scope.keys, partial(self.outputs, self.computing))
        if own is None:
            return
        given, whys = self.given_alone()
        self.values.reasons |= whys
        self._judge_all(scope.keys, given, own, [None] * len(scope.keys))

    def given_alone(self) -> tuple[list[Tensor | None], dict[str, str]]:
        """The outputs of the graph as it is left alone, and by key why those that are not there are not."""
        scope, outputs = self.plan.scope, self.run.outputs
        if outputs is None:
            why = "the backend gives another number of outputs"
            return [None] * len(scope.keys), dict.fromkeys(scope.keys, why)
        found = [outputs[place] for place in self._places]
        whys = [why_unusable(*pair) for pair in zip(scope.outputs, found, strict=True)]
        given = [one.detach() if why is None else None for one, why in zip(found, whys, strict=True)]
        return given, {key: why for key, why in zip(scope.keys, whys, strict=True) if why is not None}

    def outputs(self, computing: Computing, mode: Mode) -> list[Any]:
        """The outputs that the graph computes itself, from its inputs on."""
        torch.manual_seed(0)
        found = computing.whole(mode)
        return [found[place] for place in self._places]

    @property
    def _places(self) -> list[int]:
        """Where in what the graph gives the outputs of its scope are."""
        known = outputs_of(self.plan.graph)
        return [known.index(node) for node in self.plan.scope.outputs]

    def _own(
        self, name: str, keys: Sequence[str], compute: Compute, *, is_of_eager: bool = False
    ) -> tuple[list[Tensor], list[Any] | None] | None:
        """What the reference gives, and what eager PyTorch gives in float64; None if there is nothing to give."""
        known = None if self.reference is None or is_of_eager else self.reference.own
        try:
            own = compute(as_it_is) if known is None else [known[key] for key in keys]
        except Exception as error:
            self.values.uncompared[name] = (
                f"the reference cannot compute it from what it is given: {_said(error)}"
            )
            return None
        wide = InFloat64()
        truth = attempt(compute, wide)
        if truth is not None and (how := wide.described()) is not None:
            self.values.truths[name] = how
        return own, truth

    def _judge(
        self,
        name: str,
        keys: Sequence[str],
        nodes: Sequence[torch.fx.Node],
        own: tuple[list[Tensor], list[Any] | None],
    ) -> bool | None:
        """Whether a call is right; None if it cannot be compared."""
        if all(_is_nothing(value) for value in own[0]) and self._is_something(nodes):
            self.values.uncompared[name] = "eager PyTorch makes NaN of what it is given"
            return None
        given = [self.run.values.get(node.name) for node in nodes]
        return self._judge_all(keys, given, own, [self.chained.get(node.name) for node in nodes])

    def _judge_all(
        self,
        keys: Sequence[str],
        given: Sequence[Tensor | None],
        own: tuple[list[Tensor], list[Any] | None],
        chained: Sequence[Tensor | None],
    ) -> bool:
        """Whether a call is right, of which the backend gave some values, or all."""
        truths = [None] * len(keys) if own[1] is None else own[1]
        there: list[Value] = []
        for key, candidate, golden, truth, from_inputs in zip(
            keys, given, own[0], truths, chained, strict=True
        ):
            if candidate is None:
                self.values.keep_golden(key, golden, from_inputs)
            else:
                there.append(Value(key, candidate, golden, truth, from_inputs))
        if len(there) == len(keys):
            return self.values.judge(there)
        for value in there:
            self.values.keep(value)
        return False

    def _is_something(self, nodes: Sequence[torch.fx.Node]) -> bool:
        """Whether eager PyTorch from the beginning has numbers there."""
        known = [self.chained[node.name] for node in nodes if node.name in self.chained]
        return any(not _is_nothing(value) for value in known)


def _is_nothing(value: Tensor) -> bool:
    is_number = value.is_floating_point() or value.is_complex()
    return is_number and value.numel() > 0 and bool(value.isnan().all())


def _is_equal(one: Tensor, other: Tensor) -> bool:
    one, other = one.to(other.device), other
    same = one == other
    if one.is_floating_point() or one.is_complex():
        same = same | (one.isnan() & other.isnan())
    return bool(same.all())


def attempt(compute: Compute, mode: Mode) -> list[Any] | None:
    """What is computed within a mode; None if that cannot be done."""
    try:
        return compute(mode)
    except Exception:
        return None


def _named(keys: Sequence[str], found: list[Any] | None) -> dict[str, Tensor]:
    pairs = zip(keys, found or [None] * len(keys), strict=True)
    return {key: value for key, value in pairs if isinstance(value, Tensor)}


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
