"""Which call of a candidate stands for which of the reference's, and which tensor of it for which.

A module that is called once on both sides is paired by its path. Calls of a module that is called again, or that stands
for several modules of the other side, are paired by what they are given. If that does not tell, their order decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.candidates.left_out import NOT_COMPARED
from torchport.candidates.places import partners
from torchport.candidates.recorded_run import RecordedRun

_SAME = 1e-5
"""The distance of two values, as a share of their size, below which they are the same but for rounding."""
_ALIKE = 1e-2
"""The distance above which what two calls are given does not tell whether they belong together."""
_SAMPLED = 4096
"""Elements of a value that are looked at."""


@dataclass(frozen=True)
class PairedCall:
    candidate: str
    """The name of the candidate's call."""
    inputs: dict[int, int]
    outputs: dict[int, int]
    """For each golden position the candidate's."""
    hides_outputs: bool = False
    """Whether no output is to be compared."""


@dataclass(frozen=True)
class CallPairs:
    """By the name of a call of the reference."""

    calls: dict[str, PairedCall]
    why_not: dict[str, str]
    notes: dict[str, str]
    """What is not compared of calls that are."""

    def known_as(self, golden: RecordedRun[Any]) -> dict[str, tuple[str, str]]:
        """For each call of the candidate the name and the path of the reference's call that it stands for."""
        return {pair.candidate: (name, golden.calls[name].path) for name, pair in self.calls.items()}


def pair_calls(
    golden: RecordedRun[Any],
    candidate: RecordedRun[Any],
    absent: Mapping[str, str],
    groups: Mapping[str, str],
    closed: Mapping[str, str],
) -> CallPairs:
    """`absent` says why modules are not compared, and `closed` why what is inside them is not.

    Modules of one group are called by the same module of one side.
    """
    ours, theirs = _by_group(golden, groups), _by_group(candidate, groups)
    work = _Pairing(golden, candidate)
    why_not: dict[str, str] = {}
    notes: dict[str, str] = {}
    for group, names in ours.items():
        compared = [name for name in names if golden.calls[name].path not in absent]
        why_not |= {
            name: absent[golden.calls[name].path] for name in names if golden.calls[name].path in absent
        }
        others = theirs.get(group, [])
        work.pair(compared, others)
        times = (
            f"the candidate calls it {len(others)} times where the reference calls it {len(compared)} times"
        )
        for name in compared:
            if name not in work.partner:
                why_not[name] = NOT_COMPARED + (times if others else "the candidate never calls it")
            elif len(others) > len(compared):
                notes[name] = f"{times}, and its other calls are not compared"
    errors = _errors(work.partner, golden, candidate)
    why_not |= errors
    calls = {
        name: _tensors_of(name, other, golden, candidate)
        for name, other in work.partner.items()
        if name not in errors
    }
    for name, pair in calls.items():
        known = (closed.get(golden.calls[name].path), notes.get(name))
        inside, times_called = ([note] if note else [] for note in known)
        found = [*inside, *_left_out(name, pair, golden, candidate), *times_called]
        if found:
            notes[name] = "; ".join(found)
    ordered = {name: calls[name] for name in golden.calls if name in calls}
    return CallPairs(ordered, why_not, notes)


def _by_group(log: RecordedRun[Any], groups: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, call in log.calls.items():
        found.setdefault(groups.get(call.path, call.path), []).append(name)
    return found


def _errors(
    partner: Mapping[str, str], golden: RecordedRun[Any], candidate: RecordedRun[Any]
) -> dict[str, str]:
    """Why calls are not compared that end in an error, in either model."""
    found: dict[str, str] = {}
    for name, other in partner.items():
        ours, theirs = name in golden.failed, other in candidate.failed
        if ours or theirs:
            side = "" if ours and theirs else "in the reference " if ours else "in the candidate "
            found[name] = f"{NOT_COMPARED}{side}it ends in an error, which is caught"
    return found


@dataclass
class _Pairing:
    golden: RecordedRun[Any]
    candidate: RecordedRun[Any]
    partner: dict[str, str] = field(default_factory=dict)

    def pair(self, ours: list[str], theirs: list[str]) -> None:
        if len(ours) == len(theirs) and self._is_in_order(ours, theirs):
            self.partner.update(zip(ours, theirs, strict=True))
            return
        taken: set[str] = set()
        for _, _, _, name, other in sorted(self._likely(ours, theirs)):
            if name not in self.partner and other not in taken:
                self.partner[name] = other
                taken.add(other)
        left = [name for name in ours if name not in self.partner]
        rest = [other for other in theirs if other not in taken]
        if len(left) == len(rest):
            self.partner.update(zip(left, rest, strict=True))

    def _is_in_order(self, ours: list[str], theirs: list[str]) -> bool:
        if len(ours) == 1:
            return True
        return all(
            self._has_same_caller(name, other) and self._distance(name, other) <= _SAME
            for name, other in zip(ours, theirs, strict=True)
        )

    def _likely(self, ours: list[str], theirs: list[str]) -> Iterator[tuple[bool, float, int, str, str]]:
        """Pairs of calls that are given nearly the same, the likeliest the smallest."""
        for index, name in enumerate(ours):
            for place, other in enumerate(theirs):
                distance = self._distance(name, other)
                if distance <= _ALIKE:
                    is_elsewhere = not self._has_same_caller(name, other)
                    yield is_elsewhere, max(distance, _SAME), abs(index - place), name, other

    def _has_same_caller(self, name: str, other: str) -> bool:
        """Whether the nearest calls around two calls that are in both models are paired with each other."""
        caller = self.golden.calls[name].parent
        while caller is not None and caller not in self.partner:
            caller = self.golden.calls[caller].parent
        return caller is None or self.partner[caller] in self._callers(other)

    def _callers(self, name: str) -> Iterator[str]:
        caller = self.candidate.calls[name].parent
        while caller is not None:
            yield caller
            caller = self.candidate.calls[caller].parent

    def _distance(self, name: str, other: str) -> float:
        """How far what two calls are given is apart, as a share of its size; infinite if the forms differ."""
        pairs = partners(self.golden.given[name], self.candidate.given[other])
        if not pairs:
            return math.inf if self.golden.given[name] or self.candidate.given[other] else 0.0
        ours, theirs = self.golden.values_given(name), self.candidate.values_given(other)
        return max(_apart(ours[index], theirs[place]) for index, place in pairs.items())


def _apart(golden: Tensor, candidate: Tensor) -> float:
    if golden.shape != candidate.shape:
        return math.inf
    if golden.is_floating_point() != candidate.is_floating_point() or golden.numel() == 0:
        return 0.0  # such as a mask of another kind, which does not tell
    one, other = (_sample(tensor) for tensor in (golden, candidate))
    difference, size = (one - other).norm().item(), one.norm().item()
    if difference == 0:
        return 0.0
    return difference / size if size and math.isfinite(difference) else math.inf


def _sample(tensor: Tensor) -> Tensor:
    flat = tensor.detach().reshape(-1)
    some = flat[:: max(1, flat.numel() // _SAMPLED)].cpu()
    wide = some.to(torch.complex128 if some.is_complex() else torch.float64)
    return torch.nan_to_num(wide.abs() if wide.is_complex() else wide, 0.0, 1e30, -1e30)


def _tensors_of(name: str, other: str, golden: RecordedRun[Any], candidate: RecordedRun[Any]) -> PairedCall:
    inputs = partners(golden.given[name], candidate.given[other])
    return PairedCall(other, inputs, partners(golden.returned[name], candidate.returned[other]))


def _left_out(
    name: str, pair: PairedCall, golden: RecordedRun[Any], candidate: RecordedRun[Any]
) -> Iterator[str]:
    sides = (
        ("inputs", "it is given", pair.inputs, golden.given[name], candidate.given[pair.candidate]),
        ("outputs", "it returns", pair.outputs, golden.returned[name], candidate.returned[pair.candidate]),
    )
    for what, does, pairs, ours, theirs in sides:
        is_whole = len(pairs) == len(ours) == len(theirs)
        if is_whole or (what == "outputs" and not pairs):
            continue
        which = f"other {what}" if pairs else what
        yield f"its {which} are not compared: {does} {len(theirs)} tensors, in the reference {len(ours)}"
