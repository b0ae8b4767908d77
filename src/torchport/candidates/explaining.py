"""The cause of a difference between two PyTorch models: the operation, its line in the candidate, and hypotheses.

In: the two models, and what was compared. Out: subjects of an explanation, one for values and one for gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from torchport.candidates.causes import (
    cause_of,
    differs,
    fault_of,
    one_thread_if_small,
    set_up,
    write_slice,
)
from torchport.candidates.isolation import Border
from torchport.candidates.suspects import ComparedModels, RewrittenSuspect
from torchport.candidates.traced_call import TracedCall, traced_backward, traced_forward
from torchport.errors import CaptureError, TorchportError
from torchport.explain.explanation import Cause
from torchport.explain.noted_run import CANNOT_COMPUTE
from torchport.explain.suspect import Suspect
from torchport.parity.result import Divergence, Suggestion


@dataclass(frozen=True)
class ComparedValues:
    """The forward pass of a candidate as the subject of an explanation."""

    models: ComparedModels
    golden: Mapping[str, Tensor] = field(default_factory=dict)
    """What the candidate is measured against; empty if that is what a call of the reference computes by itself."""
    observed: Mapping[str, Tensor] = field(default_factory=dict)
    """What the candidate computed in lock-step; empty if that is what its call computes by itself."""
    edits: tuple[str, ...] = ()
    editable: str | None = None

    def suspect(self, layer: str, key: str) -> Suspect | None:
        return _if_it_can_be_seen(partial(self.suspect_of, layer, key))

    def suspect_of(self, call: str, key: str | None) -> RewrittenSuspect:
        """A call as a suspect; without a key, at the first value that it computes."""
        plan = self.models.plan
        keys = [own for own in Border.of(plan, call).computed if own == key or plan.resolve(own) == own]
        if not keys:
            raise CaptureError("TP0202", f"{call} computes nothing by itself")
        reference = self.models.traced_reference(call, lambda one, names: traced_forward(one, names, keys))
        candidate = self.models.traced_candidate(call, lambda one, names: traced_forward(one, names, keys))
        golden = reference.runnable.outputs()
        if self.golden:
            golden = [self.golden[plan.resolve(own)].detach().cpu() for own in keys]
        observed = {own: self.observed[own].detach().cpu() for own in keys if own in self.observed}
        return self.models.suspect(call, key or keys[0], reference, candidate, golden, observed)

    def cause(self, suspect: Suspect, culprit: Divergence, folder: Path) -> Cause:
        assert isinstance(suspect, RewrittenSuspect)
        with one_thread_if_small(suspect):
            fault = fault_of(suspect)
            if suspect.alignment is not None:
                write_slice(suspect, fault, folder)
            return cause_of(suspect, fault, culprit, self.models)

    def explanations(self, suspect: Suspect, culprit: Divergence) -> tuple[Suggestion, ...]:
        assert isinstance(suspect, RewrittenSuspect)
        with one_thread_if_small(suspect):
            return cause_of(suspect, fault_of(suspect), culprit, self.models).suggestions

    def set_up(self, suspect: Suspect, folder: Path) -> None:
        assert isinstance(suspect, RewrittenSuspect)
        set_up(suspect, folder)


@dataclass(frozen=True)
class ComparedGradients:
    """The backward pass of a candidate as the subject of an explanation."""

    models: ComparedModels
    cotangents: Mapping[str, Tensor]
    """The golden gradient at each border of a call."""
    golden: Mapping[str, Tensor]
    """What the candidate's gradients are measured against, by key; a parameter's key is its name."""
    observed: Mapping[str, Tensor]
    """The candidate's gradients, with the graph cut at every border."""
    calls_with: Callable[[str], list[str]]
    """The calls that may use a parameter, in the order of the backward pass."""
    edits: tuple[str, ...] = ()
    editable: str | None = None
    traced: dict[str, tuple[TracedCall, TracedCall | None]] = field(default_factory=dict)

    def suspect(self, layer: str, key: str) -> Suspect | None:
        """Of a parameter that several calls use, the first call that gets its part of it wrong.

        If the backward pass cannot be seen, it is that of what the call computes on the way there.
        """
        calls = [layer] if layer in self.models.plan.calls else self.calls_with(layer)
        looks = [partial(self.suspect_of, call, key) for call in calls]
        found = [suspect for look in looks if (suspect := _if_it_can_be_seen(look)) is not None]
        if len(found) == 1:
            return found[0]
        forward = None if found else self._forward_suspect(calls[0])
        return next((suspect for suspect in found if differs(suspect, key)), forward)

    def suspect_of(self, call: str, key: str) -> RewrittenSuspect:
        reference, candidate = self._traced(call)
        if key not in reference.outputs:
            raise CaptureError("TP0202", f"no gradient arrives at {key} in the reference")
        outputs = reference.runnable.outputs()
        observed = {
            own: self.observed[own].detach().cpu()
            for own, value in zip(reference.outputs, outputs, strict=True)
            if self._is_whole(own, value)
        }
        if key in self.models.plan.values and key not in observed:
            raise CaptureError("TP0202", f"{call} by itself has other gradients than in the reference")
        suspect = self.models.suspect(call, key, reference, candidate, outputs, observed)
        if key in self.observed and self.observed[key].numel() == 0 < suspect.golden(key).numel():
            return replace(suspect, alignment=None, observed=_without(suspect.observed, key))
        return suspect

    def _traced(self, call: str) -> tuple[TracedCall, TracedCall | None]:
        """The backward pass of a call, in both models; it is traced once."""
        if call not in self.traced:
            reference = self.models.traced_reference(
                call, lambda one, names: traced_backward(one, names, self.cotangents), backward=True
            )
            known = zip(reference.outputs, reference.runnable.outputs(), strict=True)
            shapes = {key: value.shape for key, value in known}
            candidate = self.models.traced_candidate(
                call, lambda one, names: traced_backward(one, names, self.cotangents, shapes), backward=True
            )
            self.traced[call] = reference, candidate
        return self.traced[call]

    def _is_whole(self, key: str, value: Tensor) -> bool:
        """Whether a gradient is that of the whole model, and not the part of it that comes through one call."""
        if key not in self.golden or self.golden[key].shape != value.shape:
            return False
        golden = self.golden[key].detach().cpu()
        return key in self.observed and torch.allclose(golden, value, equal_nan=True)

    def cause(self, suspect: Suspect, culprit: Divergence, folder: Path) -> Cause:
        """An operation that goes wrong on the way there is the cause of what goes wrong on the way back."""
        assert isinstance(suspect, RewrittenSuspect)
        with one_thread_if_small(suspect):
            forward = self._forward_suspect(suspect.call)
            fault = fault_of(suspect)
            if suspect.alignment is not None:
                write_slice(suspect, fault, folder)
            if forward is None:
                return cause_of(suspect, fault, culprit, self.models)
            return cause_of(forward, fault_of(forward), culprit, self.models)

    def _forward_suspect(self, call: str) -> RewrittenSuspect | None:
        """The forward pass of a call as a suspect, at the first value that is wrong; None if none is."""
        suspect = _if_it_can_be_seen(partial(ComparedValues(self.models).suspect_of, call, None))
        if suspect is None:
            return None
        wrong = (key for key in suspect.slice.outputs if differs(suspect, key))
        return next((replace(suspect, key=key) for key in wrong), None)

    def explanations(self, suspect: Suspect, culprit: Divergence) -> tuple[Suggestion, ...]:
        assert isinstance(suspect, RewrittenSuspect)
        with one_thread_if_small(suspect):
            return cause_of(suspect, fault_of(suspect), culprit, self.models).suggestions

    def set_up(self, suspect: Suspect, folder: Path) -> None:
        assert isinstance(suspect, RewrittenSuspect)
        set_up(suspect, folder)


def _if_it_can_be_seen(look: Callable[[], RewrittenSuspect]) -> RewrittenSuspect | None:
    try:
        return look()
    except (TorchportError, *CANNOT_COMPUTE):
        return None


def _without(values: Mapping[str, Tensor], key: str) -> dict[str, Tensor]:
    return {other: value for other, value in values.items() if other != key}
