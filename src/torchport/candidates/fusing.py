"""Layers that a candidate computes as one, such as a convolution into which the norm after it is folded.

Each of them differs by itself, by intention. What they are given and what comes out at their end must agree, so that is
compared. Only a layer that is of another class in the candidate is looked at, and only if it is wrong by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from torchport.candidates.call_pairing import CallPairs
from torchport.candidates.golden import make_plan
from torchport.candidates.lockstep import LockStep
from torchport.candidates.pair import ModelPair
from torchport.candidates.recorded_run import RecordedRun
from torchport.errors import TorchportError

_REACHES = ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
"""How many layers before and after the one of another class are tried, the smallest first."""
_WRONG = 1e-6
"""The error, as a share of the golden value's size, from which a layer is tried together with others."""
_AGREES = 1e-3
_BETTER = 0.25
"""The end of a stretch agrees if its error is less than the first, and less than the second of what it was before."""

Stretch = tuple[str, ...]


def fused_stretches(
    pair: ModelPair, golden: RecordedRun[Any], candidate: RecordedRun[Any], pairs: CallPairs
) -> list[Stretch]:
    """The smallest stretches of calls that the candidate computes as one."""
    search = _FusionSearch(pair, golden, candidate, pairs)
    return search.found() if search.sites else []


def with_fused(pairs: CallPairs, stretches: list[Stretch]) -> CallPairs:
    """The pairs with nothing compared inside the stretches."""
    calls, notes = dict(pairs.calls), dict(pairs.notes)
    for stretch in stretches:
        end = stretch[-1]
        together = f"the candidate computes {' and '.join(stretch)} as one"
        for name in stretch[:-1]:
            calls[name] = replace(calls[name], outputs={}, hides_outputs=True)
            notes[name] = f"its output is not compared: {together}, and they are compared at the end of {end}"
        for name in stretch[1:]:
            calls[name] = replace(calls[name], inputs={})
        notes[end] = f"it is compared together with {', '.join(stretch[:-1])}: {together}"
    return replace(pairs, calls=calls, notes=notes)


def parameters_inside(
    stretches: list[Stretch], golden: RecordedRun[Any], owners: Mapping[str, list[str]]
) -> dict[str, str]:
    """For each parameter of modules that are computed as one, why its gradient is not compared."""
    found: dict[str, str] = {}
    for stretch in stretches:
        paths = {golden.calls[name].path for name in stretch}
        why = f"the candidate computes {' and '.join(stretch)} as one, with other weights"
        found |= {name: why for name, held_by in owners.items() if paths & set(held_by)}
    return found


@dataclass
class _FusionSearch:
    pair: ModelPair
    golden: RecordedRun[Any]
    candidate: RecordedRun[Any]
    pairs: CallPairs

    @property
    def sites(self) -> list[str]:
        """The calls of modules without parts that are of another class in the candidate."""
        callers = {call.parent for call in self.golden.calls.values()}
        return [
            name
            for name, pair in self.pairs.calls.items()
            if name not in callers
            and self.golden.calls[name].type != self.candidate.calls[pair.candidate].type
        ]

    def found(self) -> list[Stretch]:
        alone = self._errors([])
        open_sites = [name for name in self.sites if alone.get(name, 0.0) > _WRONG]
        settled: list[Stretch] = []
        for before, after in _REACHES:
            tried = self._tried(open_sites, before, after, {name for one in settled for name in one})
            errors = self._errors([*settled, *tried.values()]) if tried else {}
            for site, stretch in tried.items():
                error = errors.get(stretch[-1], 1.0)
                if error <= min(_AGREES, _BETTER * max(alone[name] for name in stretch)):
                    settled.append(stretch)
                    open_sites.remove(site)
        return settled

    def _tried(self, sites: list[str], before: int, after: int, taken: set[str]) -> dict[str, Stretch]:
        found: dict[str, Stretch] = {}
        for site in sites:
            stretch = self._around(site, before, after)
            if stretch is not None and not taken & set(stretch):
                found[site] = stretch
                taken |= set(stretch)
        return found

    def _around(self, site: str, before: int, after: int) -> Stretch | None:
        parent = self.golden.calls[site].parent
        siblings = [name for name, call in self.golden.calls.items() if call.parent == parent]
        place = siblings.index(site)
        stretch = tuple(siblings[max(0, place - before) : place + after + 1])
        is_whole = len(stretch) == before + after + 1 and all(name in self.pairs.calls for name in stretch)
        return stretch if is_whole and all(map(self._feeds, stretch, stretch[1:])) else None

    def _feeds(self, name: str, following: str) -> bool:
        """Whether a call is given what another one returns, so that what the one changes the other can change back."""
        returned = [self.golden.value(identity) for identity in self.golden.outputs[name]]
        given = self.golden.values_given(following)
        return any(
            one.shape == other.shape and torch.equal(one, other) for one in returned for other in given
        )

    def _errors(self, stretches: list[Stretch]) -> dict[str, float]:
        """The error of the outputs of each call in lock-step, as a share of the golden value's size."""
        plan = make_plan(
            self.golden, self.candidate, with_fused(self.pairs, stretches), source=lambda call: call.source
        )
        probe = LockStep(plan, "candidate", plan.without_outputs | {plan.root})
        try:
            with torch.no_grad():
                self.pair.candidate.run(probe)
        except TorchportError:
            return {}
        return {
            name: max(_errors_of(step.outputs, probe.written, plan.value), default=0.0)
            for name, step in plan.calls.items()
        }


def _errors_of(keys: Any, written: Mapping[str, Tensor], golden: Any) -> Iterator[float]:
    for key in keys:
        value = golden(key)
        if key not in written or written[key].shape != value.shape:
            yield 1.0
        elif value.is_floating_point():
            size = value.double().norm().item()
            yield (written[key].to(value.device).double() - value.double()).norm().item() / (size or 1.0)
