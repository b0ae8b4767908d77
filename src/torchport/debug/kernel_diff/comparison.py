"""One comparison: the graphs are captured, given to the backend, computed again by eager PyTorch, and judged."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.candidates.stored_tensors import Scratch
from torchport.debug.comparing import ComparisonConfig
from torchport.debug.internals import observing
from torchport.debug.kernel_diff import notes
from torchport.debug.kernel_diff.candidate import (
    CompiledPair,
    compile_pair,
    leave_alone,
    new_run,
    observe,
    runs_in_eager,
)
from torchport.debug.kernel_diff.captured import CapturedGraph, Capturing, graphs_in_order
from torchport.debug.kernel_diff.cause import with_cause
from torchport.debug.kernel_diff.deadline import within
from torchport.debug.kernel_diff.excuses import Excuses
from torchport.debug.kernel_diff.judging import Judgement, judge
from torchport.debug.kernel_diff.measuring import MeasuredGraph
from torchport.debug.kernel_diff.planning import GraphPlan, add_call, add_to, call_of_step, plan_graph
from torchport.debug.kernel_diff.random_draws import Draws
from torchport.debug.kernel_diff.reference import ReferenceValues
from torchport.debug.kernel_diff.route import Route
from torchport.debug.kernel_diff.settings_kept import settings_kept
from torchport.debug.kernel_diff.steps import draws_random_numbers, read_steps
from torchport.debug.kernel_diff.values import Values
from torchport.debug.kernel_diff.whole_model import ModelRun, WholeModel
from torchport.debug.kernel_diff.whole_values import (
    WholeRuns,
    add_values,
    calls_beside_outputs,
    keyed,
    root_call,
    surplus,
)
from torchport.errors import CompileError
from torchport.events import Steps
from torchport.trace.plan import Plan

MOST_EQUAL = 0.9


@dataclass
class Compiled:
    """What was captured of a model and compiled of it, to be run any number of times."""

    plans: list[GraphPlan] = field(default_factory=list)
    pairs: dict[str, CompiledPair] = field(default_factory=dict)
    """By the name of the graph."""
    model: Callable[..., Any] | None = None
    """What torch.compile made of the model."""
    reference: Callable[..., Any] | None = None
    """What torch.compile made of the model by the backend that is the reference; None for the model itself."""
    reference_pairs: dict[str, CompiledPair] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    """By graph, or by the model, why the backend has nothing for it."""
    changed_settings: set[str] = field(default_factory=set)
    """Of torch, by the backend; each was put back."""
    is_stuck: bool = False
    """Whether the backend hangs, so that it is not asked again."""

    @property
    def has_random_numbers(self) -> bool:
        return any(draws_random_numbers(step.node) for plan in self.plans for step in plan.steps)


@dataclass
class Comparison:
    whole: WholeModel
    route: Route
    reference: Route | None
    """Another backend that is the reference; None for eager PyTorch."""
    name: str
    config: ComparisonConfig
    arithmetic: Arithmetic
    compiled: Compiled = field(default_factory=Compiled)
    steps: Steps = field(default_factory=Steps)

    def prepare(self) -> None:
        """Captures the graphs and has them compiled. What the backend fails at is kept for the report."""
        with self.steps.step("capture", "capturing the graphs"):
            graphs = self._captured()
        names = {id(module): path for path, module in self.whole.model.named_modules()}
        is_only = len({graph.number for graph in graphs}) == 1
        self.compiled.plans = [
            plan_graph(graph, read_steps(graph, names), self.name, is_only) for graph in graphs
        ]
        with self.steps.step("build", "compiling every graph"):
            for plan in self.compiled.plans:
                if plan.steps:
                    self._attempt(plan.graph.name, lambda: self._compile(plan))  # noqa: B023
            self.compiled.model = self._compiled_by(self.route)
            self.compiled.reference = None if self.reference is None else self._compiled_by(self.reference)

    def _captured(self) -> list[CapturedGraph]:
        with observing.compiling(is_observed=True):
            capturing = Capturing(self.route.decompositions, self.whole.copy_of_weight, self.whole.name_of)
            model: Any = torch.compile(self.whole.model, backend=capturing.backend, dynamic=False)
            try:
                self.whole.run(model)
            except Exception as error:
                message = f"{self.name} cannot be captured: {notes.said(error)}"
                raise CompileError("TP1021", message) from error
        return list(graphs_in_order(capturing.graphs))

    def _compile(self, plan: GraphPlan) -> None:
        given = self.route, plan.graph, plan.steps, self.config.observed_bytes
        self.compiled.pairs[plan.graph.name] = compile_pair(*given)

    def _compiled_by(self, route: Route) -> Callable[..., Any]:
        options: dict[str, Any] = {"backend": route.backend, "dynamic": False}
        compiled: Callable[..., Any] = torch.compile(self.whole.model, **options)
        return compiled

    def _attempt(self, what: str, work: Callable[[], Any], *, is_compiled: bool = False) -> Any:
        """What the backend is asked for; None if it fails, or would have to compile and has hung before."""
        if self.compiled.is_stuck and not is_compiled:
            self.compiled.failures.setdefault(what, "the backend hung before")
            return None
        try:
            with settings_kept(self.compiled.changed_settings):
                return within(self.config.timeout_s, f"{self.route.name} on {what}", work)
        except CompileError as error:
            self.compiled.is_stuck = error.code == "TP1022"
            self.compiled.failures.setdefault(what, notes.said(error))
        except Exception as error:
            self.compiled.failures.setdefault(what, f"{type(error).__name__}: {notes.said(error)}")
        return None

    def run(self, scratch: Scratch, out: Path | None) -> notes.Finished:
        """Runs everything once, and judges it."""
        values = Values.within(scratch, self.config.rules, has_pictures=out is not None)
        with self.steps.step("run", "running every graph"):
            measured = [one for plan in self.compiled.plans if (one := self._measured(plan, values, scratch))]
            runs = self._whole_runs()
        add_values(values, runs, self.name)
        judgement = self._judgement(values, measured, runs)
        given = (self.route.name, self.config.rules, self.arithmetic)
        report = with_cause(judge(judgement, *given, self.steps, out), measured, self.steps)
        return notes.completed(report, self, measured, runs, out)

    def _measured(self, plan: GraphPlan, values: Values, scratch: Scratch) -> MeasuredGraph | None:
        pair = self.compiled.pairs.get(plan.graph.name)
        if pair is None:
            return None
        run, draws = new_run(pair, scratch.store()), Draws()
        one = MeasuredGraph(plan, run, values, scratch.store, self._reference_values(plan, scratch))
        for number, stretch in enumerate(pair.observed):
            if not self._has_run(one, draws, partial(observe, run, stretch, one.computing)):
                return one if number else None
            if one.reference is None and stretch.stretch.values:
                one.measure(stretch.stretch.values[-1])
        one.measure()
        if self._has_run(one, Draws(), partial(leave_alone, run, pair, plan.graph)):
            one.finish()
        if one.reference is not None and one.reference.pair is not None:
            self.compiled.reference_pairs[plan.graph.name] = one.reference.pair
        return one

    def _has_run(self, one: MeasuredGraph, draws: Draws, work: Callable[[], None]) -> bool:
        """Whether the backend ran a part of a graph. If not, what is left of the graph is not compared."""

        def run() -> bool:
            with draws.going_on():
                work()
            return True

        name = one.plan.graph.name
        if self._attempt(name, run, is_compiled=True):
            return True
        one.give_up(f"the backend fails before: {self.compiled.failures[name]}")
        return False

    def _reference_values(self, plan: GraphPlan, scratch: Scratch) -> ReferenceValues | None:
        if self.reference is None:
            return None
        known = self.compiled.reference_pairs.get(plan.graph.name)
        most = self.config.observed_bytes
        return ReferenceValues(self.reference, scratch.store(), scratch.store(), most, known)

    def runs_in_eager(self, one: MeasuredGraph) -> bool:
        """Whether nothing but eager PyTorch computes a graph: the backend says so, or it is seen to be so.

        It is looked for only if most values are bit by bit what eager PyTorch gives, since it takes another run.
        """
        if self.route.says_it_runs_no_kernels:
            return True
        if not one.compared or one.equal < MOST_EQUAL * one.compared:
            return False
        pair = self.compiled.pairs[one.plan.graph.name]
        return bool(self._attempt(one.plan.graph.name, lambda: runs_in_eager(pair, one.computing)))

    def is_eager(self, one: MeasuredGraph) -> bool:
        """Whether every value of a graph that runs in eager PyTorch is known to be what eager PyTorch gives."""
        return self.route.says_it_runs_no_kernels or one.equal == one.compared

    def _whole_runs(self) -> WholeRuns:
        def run(call: Callable[..., Any] | None) -> ModelRun:
            with observing.compiling(is_observed=False):
                return self.whole.run(call)

        expected, truth = run(self.compiled.reference), self.whole.in_float64()
        return WholeRuns(expected, truth, self._attempt(self.name, lambda: run(self.compiled.model)))

    def _judgement(self, values: Values, measured: list[MeasuredGraph], runs: WholeRuns) -> Judgement:
        model = self.whole.model
        plan = Plan(self.name, events=[("enter", self.name)])
        order: list[str] = []
        types = {}
        for one in measured:
            order += add_to(plan, one.plan, values.uncompared)
            for step in one.plan.steps:
                call = call_of_step(one.plan, step, _parent(one.plan, step.node.name))
                types[call.name] = (call.type, call.source, call.parent or self.name)
        for path, why in notes.left_to_eager(model).items():
            if path and path not in {part for one in measured for part in one.plan.parts}:
                values.uncompared[path] = why
                kind = type(model.get_submodule(path))
                types[path] = (f"{kind.__module__}.{kind.__qualname__}", None, self.name)
        beside = calls_beside_outputs(model, runs, self.name)
        for call in beside:
            add_call(plan, call)
        plan.calls[self.name] = root_call(model, runs, self.name)
        plan.events.append(("exit", self.name))
        order += [*(call.name for call in beside), self.name]

        def emulate(arithmetic: Arithmetic, calls: Collection[str]) -> Mapping[str, Tensor]:
            found = {key: v for one in measured for key, v in one.emulated(arithmetic, calls).items()}
            if {self.name, *(call.name for call in beside)} & set(calls):
                found |= keyed(self.whole.emulated(arithmetic), self.name)
            return found

        def ends(arithmetic: Arithmetic | None) -> Mapping[str, Tensor]:
            return keyed(runs.truth if arithmetic is None else self.whole.emulated(arithmetic), self.name)

        graphs = [one.plan.scope.name for one in measured if not one.draws_as_eager]
        is_random = self.compiled.has_random_numbers and (graphs or not runs.drew_as_many)
        whole = [self.name, *(call.name for call in beside), *graphs]

        number = len(runs.eager.outputs)
        given = values, self.config, self.arithmetic
        excuses = Excuses(self.name, number, self.compiled.plans, measured, *given)
        return Judgement(
            plan=plan,
            values=values,
            order=order,
            emulate=emulate,
            ends=ends,
            types=types,
            surplus=surplus(runs, self.name),
            may_differ=whole if is_random else (),
            excused=excuses.of,
        )


def _parent(plan: GraphPlan, node: str) -> str:
    return plan.names[node].rpartition("/")[0]
