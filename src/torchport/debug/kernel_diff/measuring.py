"""From what a backend gave for a graph to the four values of each key: its own, eager's from the same inputs, how far
that is from float64, and eager's from the beginning."""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.debug.kernel_diff.candidate import CandidateRun, why_unusable
from torchport.debug.kernel_diff.computing import Computing, Mode, as_class, as_it_is
from torchport.debug.kernel_diff.planning import GraphPlan, Part
from torchport.debug.kernel_diff.random_draws import draws_as_eager, dropped, is_dropout
from torchport.debug.kernel_diff.reference import ReferenceValues
from torchport.debug.kernel_diff.steps import Step, outputs_of
from torchport.debug.kernel_diff.truth import InFloat64
from torchport.trace.residual import residual

Store = MutableMapping[str, Tensor]
Compute = Callable[[Mode], list[Any]]


@dataclass
class Values:
    """The values of all keys of a comparison, and why some are not there."""

    candidate: Store
    own_golden: Store
    distances: Store
    golden: Store
    uncompared: dict[str, str] = field(default_factory=dict)
    """By call, why it is not compared."""
    reasons: dict[str, str] = field(default_factory=dict)
    """By key, why the backend gave no value that can be compared."""
    truths: dict[str, str] = field(default_factory=dict)
    """By call, which of its operations have no kernel in float64, and how they were computed for the truth."""

    def put(self, key: str, candidate: Tensor, own: Tensor, truth: Any, golden: Tensor | None) -> None:
        self.candidate[key] = candidate
        self.own_golden[key] = own
        self.golden[key] = own if golden is None else golden
        if isinstance(truth, Tensor) and (distance := residual(own, truth)) is not None:
            self.distances[key] = distance


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
        """By node, what eager PyTorch computes from the inputs of the graph."""

    def measure(self) -> None:
        """Puts the values of every operation, every module and the graph itself into `values`."""
        self._compute_chain()
        self.draws_as_eager = draws_as_eager(self.computing)
        for step in self.plan.steps:
            self._measure_step(step)
        for part in self.plan.parts.values():
            self._measure_part(part)
        self._measure_graph()

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
            **{part.name: (part.keys, partial(self._row, part)) for part in self.plan.parts.values()},
            self.plan.scope.name: (self.plan.scope.keys, self._outputs),
        }

    def _row(self, part: Part, mode: Mode) -> list[Any]:
        return self.computing.in_a_row(part.steps, part.outputs, mode)

    def _compute_chain(self) -> None:
        wanted = {value.name for step in self.plan.steps for value in step.values}

        def keep(name: str, value: Any) -> None:
            if name in wanted:
                self.chained[name] = value
            elif not isinstance(value, tuple | list):
                self.computing.plain[name] = value

        try:
            torch.manual_seed(0)
            self.computing.whole(as_it_is, keep)
            if self.reference is not None:
                self.reference.compute(self.plan, self.computing)
                self.chained = self.reference.chained
        except Exception as error:
            self.values.uncompared[self.plan.scope.name] = _said(error)

    def _measure_step(self, step: Step) -> None:
        name, keys = self.plan.names[step.node.name], self.plan.keys(step)
        if step.left_out is not None:
            self._measure_left_out(step)
            return
        for key, value in zip(keys, step.values, strict=True):
            if value.name in self.run.reasons:
                self.values.reasons[key] = self.run.reasons[value.name]
        own = self._own(name, keys, partial(self.computing.one, step))
        if own is not None and self._put(name, keys, step.values, own):
            given = (self.run.values[value.name] for value in step.values if value.name in self.run.values)
            self.equal += all(_is_equal(*pair) for pair in zip(given, own[0], strict=False))

    def _measure_left_out(self, step: Step) -> None:
        """Of an operation that is not compared, a dropout: what it makes of the elements that it keeps."""
        name, keys = self.plan.names[step.node.name], self.plan.keys(step)
        is_given = all(value.name in self.run.values for value in step.values)
        if is_dropout(step) and is_given:
            own = self._own(name, keys, partial(dropped, self.computing, step), is_of_eager=True)
            if own is not None and self._put(name, keys, step.values, own):
                return
        self.values.uncompared.setdefault(name, step.left_out or "")

    def _measure_part(self, part: Part) -> None:
        if not part.outputs:
            return
        missing = [node.name for node in part.outputs if node.name in self.run.reasons]
        if missing:
            self.values.uncompared[part.name] = f"the backend gives no value for {missing[0]}"
            return
        if (own := self._own(part.name, part.keys, partial(self._row, part))) is not None:
            self._put(part.name, part.keys, part.outputs, own)

    def _measure_graph(self) -> None:
        """The outputs of the graph if nothing is observed, against what eager makes of the same inputs."""
        scope, outputs = self.plan.scope, self.run.outputs
        own = self._own(scope.name, scope.keys, self._outputs)
        if own is None:
            return
        for index, key in enumerate(scope.keys):
            self.values.own_golden[key] = self.values.golden[key] = own[0][index]
            if outputs is None:
                self.values.reasons[key] = "the backend gives another number of outputs"
                continue
            given = outputs[self._places[index]]
            if (why := why_unusable(scope.outputs[index], given)) is None:
                truth = None if own[1] is None else own[1][index]
                self.values.put(key, given.detach(), own[0][index], truth, None)
            else:
                self.values.reasons[key] = why

    def _outputs(self, mode: Mode) -> list[Any]:
        torch.manual_seed(0)
        found = self.computing.whole(mode)
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

    def _put(
        self,
        name: str,
        keys: Sequence[str],
        nodes: Sequence[torch.fx.Node],
        own: tuple[list[Tensor], list[Any] | None],
    ) -> bool:
        if all(_is_nothing(value) for value in own[0]) and self._is_something(nodes):
            self.values.uncompared[name] = "eager PyTorch makes NaN of what it is given"
            return False
        truths = [None] * len(keys) if own[1] is None else own[1]
        for key, node, golden, truth in zip(keys, nodes, own[0], truths, strict=True):
            chained = self.chained.get(node.name)
            if node.name in self.run.values:
                self.values.put(key, self.run.values[node.name], golden, truth, chained)
            else:
                self.values.own_golden[key] = golden
                self.values.golden[key] = golden if chained is None else chained
        return True

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
