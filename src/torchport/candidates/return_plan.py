"""The way back: the calls of a forward pass, as the backward pass goes through them, with their gradients.

On the way back a call takes the gradients of its outputs and gives those of its inputs and parameters. So it is
compared as on the way there, with inputs and outputs changed over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from torchport.candidates.cuts import Flow, Gradients
from torchport.candidates.golden import GoldenPlan
from torchport.candidates.pair import NOT_COMPARED
from torchport.candidates.probing import WatchedCall
from torchport.candidates.verdict import Comparison, not_compared
from torchport.parity.result import Layer
from torchport.trace.plan import Call

_NOTHING = torch.empty(0)
"""Stands for no gradient where the other side has one, so that the two are set against each other."""


@dataclass(frozen=True)
class GradientsFound:
    """All gradients, by key; a parameter's key is its name."""

    flow: Flow
    compared: Callable[[str], bool]
    with_inputs: Callable[[str], bool]
    why_not: Mapping[str, str]
    absent: Mapping[str, str]
    """Why a parameter is not compared."""
    owners: Mapping[str, list[str]]
    """For each parameter the paths of the modules that hold it."""
    golden: Gradients
    shown: Gradients
    """What the candidate is measured against: `golden`, or the same in the candidate's dtype."""
    truth: Gradients
    own: Gradients
    chained: Gradients
    source: Callable[[WatchedCall], str | None]

    def calls_with(self, parameter: str) -> list[str]:
        """The calls that may use a parameter, in the order of the backward pass: those of the modules that hold it.

        A module that is not compared counts as a part of the one that it is in.
        """
        paths = {self._compared_path(path) for path in self.owners.get(parameter, ())}
        return [name for name, call in reversed(self.flow.calls.items()) if call.path in paths]

    def _compared_path(self, path: str) -> str:
        there = {call.path for name, call in self.flow.calls.items() if self.compared(name)}
        while path and path not in there:
            path = path.rpartition(".")[0]
        return path

    def is_wanted(self, key: str) -> bool:
        """Whether there is a gradient on either side."""
        return any(side.get(key) is not None for side in (self.golden, self.own, self.chained))


def compared_gradients_of(found: GradientsFound) -> Comparison:
    return _Return(found).comparison()


@dataclass
class _Return:
    found: GradientsFound
    labels: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    uncompared: list[Layer] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def comparison(self) -> Comparison:
        flow = self.found.flow
        self.root = flow.events[0][1]
        self.everything = f"{self.root}.parameters"
        self.plan = GoldenPlan(self.root)
        self.under = self._homes()
        self.judged = [name for names in self.under.values() for name in names if self._is_judged(name)]
        for kind, name in reversed(flow.events):
            if self.found.compared(name):
                self._enter(name) if kind == "exit" else self._exit(name)
            elif kind == "enter":
                call = flow.calls[name]
                self._skip(replace(call, type=_type(call.type, "input")), self.found.why_not[name])
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
        flow, call = self.found.flow, self.found.flow.calls[name]
        for parameter in self.under.get(name, ()):
            self._parameter(parameter, call)
        arriving = [] if call.parent is None else self._keys(flow.outputs[name], "gradient at {}", name)
        inputs = flow.inputs[name] if self.found.with_inputs(name) else []
        given = self._keys(inputs, "gradient of {}", name)
        if call.parent is None and self.judged:
            given = [self.everything, *given]
            self.labels[self.everything] = "the gradients of all parameters"
        source, parent = self.found.source(call), flow.parent(call, self.found.compared)
        self.plan.calls[name] = Call(
            name, call.path, _type(call.type, "input"), arriving, given, source, parent
        )
        self.plan.events.append(("exit", name))
        self.order.append(name)

    def _keys(self, keys: list[str], label: str, call: str) -> list[str]:
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
            why = NOT_COMPARED + self.found.absent.get(name, "no gradient flows to it in either")
            self._skip(WatchedCall(name, owner, kind, self.found.source(home), home.name), why)
            return
        self.labels[name] = f"gradient of {leaf}"
        self.plan.calls[name] = Call(name, owner, kind, (), [name], self.found.source(home), home.name)
        self.plan.events += [("enter", name), ("exit", name)]
        self.order.append(name)

    def _skip(self, call: WatchedCall, why: str) -> None:
        self.uncompared.append(not_compared(call, why))
        self.order.append(call.name)

    def _collected(self) -> Comparison:
        keys = [key for step in self.plan.calls.values() for key in (*step.inputs, *step.outputs)]
        golden: dict[str, Tensor] = {}
        own: dict[str, Tensor] = {}
        chained: dict[str, Tensor] = {}
        for key in keys:
            if key != self.everything:
                sides = [side.get(key) for side in (self.found.shown, self.found.own, self.found.chained)]
                golden[key], own[key], chained[key] = (_NOTHING if one is None else one for one in sides)
                if sides[0] is None:
                    self.reasons[key] = "the candidate has a gradient where the reference has none"
                elif any(one is None for one in sides):
                    self.reasons[key] = "no gradient arrives"
        truth = {key: value for key, value in self.found.truth.items() if value is not None}
        if self.everything in keys:
            golden[self.everything] = own[self.everything] = self._joined(golden, golden)
            chained[self.everything] = self._joined(chained, golden)
            if all(name in truth for name in self.judged):
                truth[self.everything] = self._joined(truth, golden)
        self.plan.values = golden
        return Comparison(
            plan=self.plan,
            golden=golden,
            chained=chained,
            uncompared=self.uncompared,
            order=self.order,
            truth=truth,
            lockstep=own,
            labels=self.labels,
            reasons=self.reasons,
            joined={self.everything: self.judged} if self.everything in keys else {},
        )

    def _joined(self, gradients: Mapping[str, Tensor], golden: Mapping[str, Tensor]) -> Tensor:
        """All parameters' gradients in a row; one that is missing, or has another shape, is 0 throughout."""
        parts = [
            gradients[name] if gradients[name].shape == golden[name].shape else torch.zeros_like(golden[name])
            for name in self.judged
        ]
        return in_a_row(parts)


def with_joined(found: Mapping[str, Tensor], comparison: Comparison) -> Mapping[str, Tensor]:
    """The same with all parameters' gradients in a row, too, if none is missing."""
    rows = {
        key: in_a_row([found[name] for name in names])
        for key, names in comparison.joined.items()
        if all(name in found for name in names)
    }
    return {**found, **rows}


def in_a_row(gradients: Sequence[Tensor]) -> Tensor:
    return torch.cat([gradient.detach().cpu().reshape(-1) for gradient in gradients])


def _type(kind: str, what: str) -> str:
    return f"gradient of {kind.rpartition('.')[2]}.{what}"
