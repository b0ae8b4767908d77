"""A candidate that computes golden values bit for bit was given golden inputs all along, and need not run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from torchport.candidates.call_pairing import CallPairs
from torchport.candidates.golden import GoldenPlan, Recording
from torchport.candidates.identity import TensorIdentity


def lockstep_of_same(
    plan: GoldenPlan, pairs: CallPairs, golden: Recording, candidate: Recording
) -> Mapping[str, Tensor] | None:
    """What the candidate would compute in lock-step, if all it computed by itself is golden; None otherwise.

    Golden values in the place of equal ones change nothing, and a run was found to give the same twice.
    """
    if plan.without_outputs or not _is_golden_everywhere(pairs, golden, candidate):
        return None
    names = {pair.candidate: name for name, pair in pairs.calls.items()}
    found = _Handed(plan, pairs, candidate)
    for kind, name in candidate.events:
        if name in names:
            (found.enter if kind == "enter" else found.leave)(names[name])
    return found.written


def _is_golden_everywhere(pairs: CallPairs, golden: Recording, candidate: Recording) -> bool:
    """Whether each value at a border of a pair of calls is kept once for both runs, because its bits are the same."""
    for name, pair in pairs.calls.items():
        borders = (
            (pair.inputs, golden.inputs[name], candidate.inputs[pair.candidate]),
            (pair.outputs, golden.outputs[name], candidate.outputs[pair.candidate]),
        )
        for positions, ours, theirs in borders:
            for own, other in positions.items():
                if golden.values[ours[own]] is not candidate.values[theirs[other]]:
                    return False
    return True


@dataclass
class _Handed:
    """Follows golden values through the candidate's run, as a lock-step run does, and notes those it would write."""

    plan: GoldenPlan
    pairs: CallPairs
    candidate: Recording
    handed: dict[TensorIdentity, str] = field(default_factory=dict)
    written: dict[str, Tensor] = field(default_factory=dict)

    def enter(self, name: str) -> None:
        step, pair = self.plan.calls[name], self.pairs.calls[name]
        given = self.candidate.inputs[pair.candidate]
        for key, position in zip(step.inputs, pair.inputs.values(), strict=True):
            is_handed_on = self.handed.get(given[position]) == self.plan.resolve(key)
            if step.parent is not None and not is_handed_on:
                self.written[key] = self.plan.value(key)
            self.handed[given[position]] = self.plan.resolve(key)

    def leave(self, name: str) -> None:
        step, pair = self.plan.calls[name], self.pairs.calls[name]
        returned = self.candidate.outputs[pair.candidate]
        for key, position in zip(step.outputs, pair.outputs.values(), strict=True):
            self.written[key] = self.plan.value(key)
            self.handed[returned[position]] = self.plan.resolve(key)
