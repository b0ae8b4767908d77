"""Layers that a candidate computes as one, such as a convolution into which the norm after it is folded.

Each of them differs by itself, by intention. What they are given and what comes out at their end must agree, so that is
compared. Only one of them does anything in the candidate, the work of all; the others return what they are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
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
"""How many layers before and after the one that does nothing are tried, the smallest first."""
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
    stretches: list[Stretch],
    golden: RecordedRun[Any],
    owners: Mapping[str, list[str]],
    ours: Mapping[str, Tensor],
    theirs: Mapping[str, Tensor],
) -> dict[str, str]:
    """For each parameter of modules that are computed as one, why its gradient is not compared.

    It is compared if no parameter of these modules has other values in the candidate, such as those of a product into
    which an activation is folded.
    """
    found: dict[str, str] = {}
    for stretch in stretches:
        paths = {golden.calls[name].path for name in stretch}
        inside = [name for name, held_by in owners.items() if paths & set(held_by)]
        same = (
            name in theirs and _is_same(ours[name], theirs[name].to(ours[name].device)) for name in inside
        )
        if not all(same):
            why = f"the candidate computes {' and '.join(stretch)} as one, with other weights"
            found |= dict.fromkeys(inside, why)
    return found


@dataclass
class _FusionSearch:
    pair: ModelPair
    golden: RecordedRun[Any]
    candidate: RecordedRun[Any]
    pairs: CallPairs

    @cached_property
    def sites(self) -> list[str]:
        """The calls of modules without parts that do something in the reference and nothing in the candidate."""
        callers = {call.parent for call in self.golden.calls.values()}
        if not any(self._is_of_another_class(name) for name in self.pairs.calls.keys() - callers):
            return []
        return [
            name
            for name, pair in self.pairs.calls.items()
            if name not in callers
            and _does_nothing(self.candidate, pair.candidate)
            and not _does_nothing(self.golden, name)
        ]

    def _is_of_another_class(self, name: str) -> bool:
        return self.golden.calls[name].type != self.candidate.calls[self.pairs.calls[name].candidate].type

    def found(self) -> list[Stretch]:
        alone = self._errors([])
        open_sites = [name for name in self.sites if alone.get(name, 0.0) > _WRONG]
        settled: list[Stretch] = []
        for before, after in _REACHES:
            tried = self._tried(open_sites, before, after, {name for one in settled for name in one})
            errors = self._errors([*settled, *tried.values()]) if tried else {}
            for stretch in tried.values():
                if self._agrees(stretch, errors, alone):
                    settled.append(stretch)
                    open_sites = [other for other in open_sites if other not in stretch]
        return settled

    def _agrees(self, stretch: Stretch, errors: Mapping[str, float], alone: Mapping[str, float]) -> bool:
        """Whether the end is right, and the caller has no other use for what is inside, which would make it wrong."""
        caller = self._caller(stretch[0])
        is_unharmed = errors.get(caller, 0.0) <= alone.get(caller, 0.0)
        is_better = errors.get(stretch[-1], 1.0) <= _BETTER * max(alone[name] for name in stretch)
        return is_unharmed and is_better and errors[stretch[-1]] <= _AGREES

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
        return stretch if is_whole and self._may_be_one(stretch) else None

    def _may_be_one(self, stretch: Stretch) -> bool:
        """Whether calls feed each other, and all but one do nothing in the candidate, which is of other classes."""
        others = [self.pairs.calls[name].candidate for name in stretch]
        return (
            sum(not _does_nothing(self.candidate, other) for other in others) == 1
            and any(map(self._is_of_another_class, stretch))
            and all(_feeds(self.golden, *two) for two in pairwise(stretch))
            and all(_feeds(self.candidate, *two) for two in pairwise(others))
        )

    def _caller(self, name: str) -> str:
        """The nearest call around a call that is compared, too."""
        caller = self.golden.calls[name].parent
        while caller is not None and caller not in self.pairs.calls:
            caller = self.golden.calls[caller].parent
        return caller or self.golden.root

    def _errors(self, stretches: list[Stretch]) -> dict[str, float]:
        """The error of what each call computes in lock-step: its outputs, and what it gives to the calls that it makes.

        It is a share of the golden value's size.
        """
        plan = make_plan(
            self.golden, self.candidate, with_fused(self.pairs, stretches), source=lambda call: call.source
        )
        probe = LockStep(plan, "candidate", set(plan.without_outputs))
        try:
            with torch.no_grad():
                self.pair.candidate.run(probe)
        except TorchportError:
            return {}
        found = dict.fromkeys(plan.calls, 0.0)
        for name, step in plan.calls.items():
            given = [key for key in step.inputs if key in probe.written]
            for call, keys in ((name, step.outputs), (step.parent or name, given)):
                found[call] = max([found[call], *_errors_of(keys, probe.written, plan.value)])
        return found


def _does_nothing(run: RecordedRun[Any], name: str) -> bool:
    """Whether a call returns what it is given."""
    given = run.values_given(name)
    returned = [run.value(identity) for identity in run.outputs[name]]
    return bool(returned) and all(any(_is_same(one, other) for other in given) for one in returned)


def _feeds(run: RecordedRun[Any], name: str, following: str) -> bool:
    """Whether a call is given what another one returns, so that the one can do the other's work."""
    given = run.values_given(following)
    return any(_is_same(run.value(identity), other) for identity in run.outputs[name] for other in given)


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def _errors_of(keys: Any, written: Mapping[str, Tensor], golden: Any) -> Iterator[float]:
    for key in keys:
        value = golden(key)
        if key not in written or written[key].shape != value.shape:
            yield 1.0
        elif value.is_floating_point():
            size = value.double().norm().item()
            yield (written[key].to(value.device).double() - value.double()).norm().item() / (size or 1.0)
