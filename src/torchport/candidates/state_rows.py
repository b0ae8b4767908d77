"""State that the forward pass writes to, as rows of a report: buffers, parameters and inputs, each judged like a layer.

In: a comparison, and what each of its runs left of the state. Out: the comparison with rows, or with a note on what was
written and not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from torchport.candidates.golden import GoldenPlan
from torchport.candidates.kept_tensors import remarks_on_kept_tensors
from torchport.candidates.left_out import BY_MAP, NO_SUCH_STATE, NOT_COMPARED, named
from torchport.candidates.pair import ModelPair
from torchport.candidates.probing import WatchedCall
from torchport.candidates.state_watch import INPUT, StateWatch
from torchport.candidates.stored_tensors import ChosenTensors
from torchport.candidates.verdict import Comparison, not_compared
from torchport.candidates.watched_model import WatchedModel
from torchport.trace.plan import Call
from torchport.trace.residual import residual


@dataclass(frozen=True)
class StateRuns:
    """A witness of the state for each run of a comparison. `is_compared` says whether its rows were asked for."""

    pair: ModelPair
    is_compared: bool
    golden: StateWatch
    coarser: StateWatch
    truth: StateWatch
    chained: StateWatch
    own: StateWatch

    @classmethod
    def of(cls, pair: ModelPair, is_compared: bool) -> StateRuns:
        reference, candidate = pair.reference, pair.candidate
        sides = (reference, reference, reference, candidate, candidate)
        return cls(pair, is_compared, *(_watch(side) for side in sides))

    def partner(self, name: str) -> str | None:
        return name if name.startswith(INPUT) else self.pair.partner_of(name)

    @property
    def written(self) -> list[str]:
        """The reference's names of what either model writes to."""
        known = self.golden.before
        return [
            name for name in known if name in self.golden.after or self.partner(name) in self.chained.after
        ]

    @property
    def only_the_candidates(self) -> list[str]:
        """What the candidate writes to and the reference does not have."""
        known = {self.partner(name) for name in self.golden.before}
        return [name for name in self.chained.after if name not in known]


def _watch(side: WatchedModel) -> StateWatch:
    return StateWatch(side.owners if side.is_function else (side.model,))


@dataclass(frozen=True)
class _Row:
    """One part of the state, with its value after each run; None for a run that did not come to it."""

    name: str
    path: str
    kind: str
    golden: Tensor | None
    shown: Tensor | None
    """What the candidate is measured against: `golden`, or the same in the candidate's dtype."""
    truth: Tensor | None
    chained: Tensor | None
    own: Tensor | None
    why_not: str | None

    @property
    def distance(self) -> Tensor | None:
        """From what the candidate is measured against to the truth."""
        return None if self.shown is None or self.truth is None else residual(self.shown, self.truth)


def with_state(comparison: Comparison, runs: StateRuns, *, first: bool = False) -> Comparison:
    """The comparison with a row for all state that is written to; if that was not asked for, with a note on it.

    The rows come where the module that has the state is left or, with `first`, before all others.
    """
    written, others = runs.written, runs.only_the_candidates
    remarks = [*comparison.remarks, *remarks_on_kept_tensors(runs.pair)]
    if others:
        remarks.append(f"the candidate writes to {named(others)}, which the reference does not have")
    if written and not runs.is_compared:
        remarks.append(f"the forward pass writes to {named(written)}: not compared without state=True")
    comparison = replace(comparison, remarks=tuple(remarks))
    if not runs.is_compared:
        return comparison
    for name in reversed(written) if first else written:
        comparison = _with_row(comparison, _row(comparison, runs, name), first)
    return comparison


def _row(comparison: Comparison, runs: StateRuns, name: str) -> _Row:
    is_input = name.startswith(INPUT)
    path, _, leaf = ("", "", name) if is_input else name.rpartition(".")
    golden, partner = runs.golden.value(name), runs.partner(name)
    chained = None if partner is None else runs.chained.value(partner)
    why_not = None
    if chained is None:
        why_not = BY_MAP if partner is None else NO_SUCH_STATE
    return _Row(
        name=f"{name} after the call" if name in comparison.order else name,
        path=path,
        kind="input after the call" if is_input else f"state {_class_at(runs.pair, path)}.{leaf}",
        golden=golden,
        shown=runs.coarser.after.get(name, golden) if comparison.precision else golden,
        truth=runs.truth.after.get(name),
        chained=chained,
        own=None if partner is None else runs.own.value(partner),
        why_not=why_not,
    )


def _class_at(pair: ModelPair, path: str) -> str:
    """The class of the module at a path of the reference, or of the nearest around it that can be watched."""
    classes = {own: type(module).__name__ for module, own in pair.reference.names.items()}
    while path not in classes:
        path = path.rpartition(".")[0]
    return classes[path]


def _with_row(comparison: Comparison, row: _Row, first: bool) -> Comparison:
    plan = comparison.plan
    home = plan.root if first else _home(plan, row.path)
    source = plan.calls[home].source
    order = list(comparison.order)
    order.insert(0 if first else order.index(home), row.name)
    if row.why_not is not None:
        watched = WatchedCall(row.name, row.path, row.kind, source, home)
        left_out = not_compared(watched, NOT_COMPARED + row.why_not)
        return replace(comparison, order=order, uncompared=[*comparison.uncompared, left_out])
    call = Call(row.name, row.path, row.kind, (), [row.name], source, home)
    at = 1 if first else plan.events.index(("exit", home))
    events = [*plan.events[:at], ("enter", row.name), ("exit", row.name), *plan.events[at:]]
    following = {name: step for name, step in plan.calls.items() if first or name == home}
    calls = {name: step for name, step in plan.calls.items() if name not in following}
    calls |= {row.name: call} | following
    return replace(
        comparison,
        order=order,
        plan=replace(plan, calls=calls, events=events),
        golden=_with(comparison.golden, row.name, row.shown),
        distances=_with(comparison.distances, row.name, row.distance),
        chained=_with(comparison.chained, row.name, row.chained),
        lockstep=_with(comparison.lockstep, row.name, row.own),
        labels={**comparison.labels, row.name: "value after the call"},
    )


def _with(values: Mapping[str, Tensor], name: str, value: Tensor | None) -> Mapping[str, Tensor]:
    if value is None:
        return values
    return ChosenTensors([*values, name], {name: value}, values, missing=value)


def _home(plan: GoldenPlan, path: str) -> str:
    """The last call of the module at a path, or of the nearest around it that is compared."""
    names = {call.path: call.name for call in plan.calls.values()}
    while path not in names:
        path = path.rpartition(".")[0]
    return names[path] if path else plan.root
