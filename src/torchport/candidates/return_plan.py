"""The way back: the calls of a forward pass, as the backward pass goes through them, with their gradients.

On the way back a call takes the gradients of its outputs and gives those of its inputs and parameters. So it is
compared as on the way there, with inputs and outputs changed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from torchport.candidates.flow import Flow, Gradients
from torchport.candidates.golden import GoldenPlan
from torchport.candidates.left_out import NO_GRADIENT, NOT_COMPARED
from torchport.candidates.parameter_rows import JoinedRows, ParameterRow, rows_of
from torchport.candidates.probing import WatchedCall
from torchport.candidates.stored_tensors import ChosenTensors, StoredTensors
from torchport.candidates.verdict import Comparison, not_compared
from torchport.parity.result import Layer
from torchport.trace.plan import Call
from torchport.trace.residual import residual

_NOTHING = torch.empty(0)
"""Stands for no gradient where the other side has one, so that the two are set against each other."""


@dataclass(frozen=True)
class GradientsFound:
    """All gradients, by key; a parameter's key is its name."""

    flow: Flow
    plan: GoldenPlan
    """The forward pass of the calls that are compared."""
    why_not: Mapping[str, str]
    """By the name of a call, why it is not compared."""
    absent: Mapping[str, str]
    """Why a parameter is not compared."""
    owners: Mapping[str, list[str]]
    """For each parameter the paths of the modules that hold it."""
    golden: Gradients
    shown: Gradients
    """What the candidate is measured against: `golden`, or the same in the candidate's dtype."""
    truth: StoredTensors
    own: Gradients
    chained: Gradients
    new_store: Callable[[], StoredTensors]

    def calls_with(self, parameter: str) -> list[str]:
        """The calls that may use a parameter, in the order of the backward pass: those of the modules that hold it.

        A module that is not compared counts as a part of the one that it is in.
        """
        paths = {self._compared_path(path) for path in self.owners.get(parameter, ())}
        return [
            name
            for name, call in reversed(self.flow.calls.items())
            if name in self.plan.calls and call.path in paths
        ]

    def _compared_path(self, path: str) -> str:
        there = {call.path for call in self.plan.calls.values()}
        while path and path not in there:
            path = path.rpartition(".")[0]
        return path

    def is_wanted(self, key: str) -> bool:
        """Whether there is a gradient on either side."""
        return any(key in side for side in (self.golden, self.own, self.chained))


def compared_gradients_of(found: GradientsFound) -> tuple[Comparison, dict[str, ParameterRow]]:
    """The comparison, and the rows in it that have the gradients of all parameters, by key."""
    work = _Return(found)
    return work.comparison(), work.rows


def with_joined(gradients: Gradients, rows: Mapping[str, ParameterRow]) -> Gradients:
    """The same with all parameters' gradients in a row, too, if none is missing."""
    whole = {key: row for key, row in rows.items() if all(name in gradients for name in row.parameters)}
    joined = JoinedRows(whole, gradients, gradients)
    return ChosenTensors([*gradients, *joined], joined, gradients, missing=_NOTHING)


@dataclass
class _Return:
    found: GradientsFound
    labels: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    uncompared: list[Layer] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def comparison(self) -> Comparison:
        flow = self.found.flow
        self.plan = GoldenPlan(flow.root)
        self.under = self._homes()
        judged = [name for names in self.under.values() for name in names if self._is_judged(name)]
        self.rows = rows_of(flow.root, judged, self.found.shown)
        for kind, name in reversed(flow.events):
            if name in self.found.plan.calls:
                self._enter(name) if kind == "exit" else self._exit(name)
            elif kind == "enter":
                call = flow.calls[name]
                self._skip(call._replace(type=_type(call.type, "input")), self.found.why_not[name])
        return self._collected()

    def _homes(self) -> dict[str, list[str]]:
        """The parameters by the call under which they are shown: the last on the way back that may use them."""
        homes: dict[str, list[str]] = {}
        for parameter in self.found.owners:
            homes.setdefault(self.found.calls_with(parameter)[-1], []).append(parameter)
        return homes

    def _is_judged(self, parameter: str) -> bool:
        return parameter not in self.found.absent and self.found.is_wanted(parameter)

    def _enter(self, name: str) -> None:
        self.plan.events.append(("enter", name))

    def _exit(self, name: str) -> None:
        call, step = self.found.flow.calls[name], self.found.plan.calls[name]
        for parameter in self.under.get(name, ()):
            self._parameter(parameter, call)
        arriving = [] if call.parent is None else self._keys(step.outputs, "gradient at {}", name)
        given = self._keys(step.inputs, "gradient of {}", name)
        if call.parent is None:
            given = [*self.rows, *given]
            self.labels |= {key: row.label for key, row in self.rows.items()}
        self.plan.calls[name] = replace(step, type=_type(call.type, "input"), inputs=arriving, outputs=given)
        self.plan.events.append(("exit", name))
        self.order.append(name)

    def _keys(self, keys: Sequence[str], label: str, call: str) -> list[str]:
        wanted = [key for key in keys if self.found.is_wanted(key)]
        for key in wanted:
            what = f"input {key.rpartition('<')[2]}" if "<" in key else f"the output of {call}"
            self.labels[key] = label.format(what)
        return wanted

    def _parameter(self, name: str, home: WatchedCall) -> None:
        owner, _, leaf = name.rpartition(".")
        by_path = {call.path: call for call in self.found.flow.calls.values()}
        kind = _type(by_path.get(owner, home).type, leaf)
        if not self._is_judged(name):
            why = NOT_COMPARED + self.found.absent.get(name, NO_GRADIENT)
            self._skip(
                WatchedCall(name, owner, kind, self.found.plan.calls[home.name].source, home.name), why
            )
            return
        self.labels[name] = f"gradient of {leaf}"
        self.plan.calls[name] = Call(
            name, owner, kind, (), [name], self.found.plan.calls[home.name].source, home.name
        )
        self.plan.events += [("enter", name), ("exit", name)]
        self.order.append(name)

    def _skip(self, call: WatchedCall, why: str) -> None:
        self.uncompared.append(not_compared(call, why))
        self.order.append(call.name)

    def _collected(self) -> Comparison:
        found = self.found
        keys = [key for step in self.plan.calls.values() for key in (*step.inputs, *step.outputs)]
        for key in keys:
            if key in self.rows:
                continue
            if key not in found.shown:
                self.reasons[key] = "the candidate has a gradient where the reference has none"
            elif key not in found.own or key not in found.chained:
                self.reasons[key] = "no gradient arrives"
        joined = JoinedRows(self.rows, found.shown, found.shown)
        golden = ChosenTensors(keys, joined, found.shown, missing=_NOTHING)
        self.plan.values = golden
        return Comparison(
            plan=self.plan,
            golden=golden,
            chained=ChosenTensors(
                keys, JoinedRows(self.rows, found.chained, found.shown), found.chained, missing=_NOTHING
            ),
            uncompared=self.uncompared,
            order=self.order,
            distances=self._distances(keys),
            lockstep=ChosenTensors(keys, joined, found.own, missing=_NOTHING),
            labels=self.labels,
            reasons=self.reasons,
        )

    def _distances(self, keys: list[str]) -> Gradients:
        """The distances from the truth, which is not needed any more and is dropped."""
        shown, truth, distances = self.found.shown, self.found.truth, self.found.new_store()
        for key in keys:
            if key in truth and key in shown and (distance := residual(shown[key], truth[key])) is not None:
                distances[key] = distance
            truth.pop(key, None)
        return with_joined(distances, self.rows)


def _type(kind: str, what: str) -> str:
    return f"gradient of {kind.rpartition('.')[2]}.{what}"
