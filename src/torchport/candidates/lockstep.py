"""Running in lock-step: what each call computes from golden inputs is written down, and golden values are
handed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from torchport.candidates.golden import GoldenPlan, TensorIdentity, identity_of
from torchport.candidates.leaves import Path
from torchport.candidates.masks import in_form_of, is_same_mask
from torchport.candidates.places import kind_of
from torchport.candidates.precision import like
from torchport.candidates.probing import NotRepeated, WatchedCall


@dataclass
class LockStep(NotRepeated):
    """A probe for a candidate, and for the reference itself in another dtype."""

    plan: GoldenPlan
    side: str
    """The model that is run: `reference` or `candidate`."""
    wrong: set[str] = field(default_factory=set)
    """Calls that lack an output of the reference's, so that golden ones cannot be put in the place of theirs."""
    written: dict[str, Tensor] = field(default_factory=dict)
    handed: dict[TensorIdentity, tuple[Tensor, str]] = field(default_factory=dict)
    """The golden tensors that were handed out, and which value each is."""

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None or not step.inputs:
            return tensors
        result = list(tensors)
        for key, index in at_places(step.inputs, self.plan.places[self.side].given[call.name], places):
            if step.parent is None:
                self._note(key, tensors[index])
                continue
            if not self._is_handed_on(key, tensors[index]):
                self.written[key] = in_form_of(self.plan.value(key), tensors[index]).detach().clone()
            result[index] = self._golden(key, tensors[index])
        return result

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None or call.name in self.wrong:
            return tensors
        result = list(tensors)
        for key, index in at_places(step.outputs, self.plan.places[self.side].returned[call.name], places):
            self.written[key] = self._returned(key, tensors[index], is_last=step.parent is None)
            result[index] = self._golden(key, tensors[index])
        return result

    def _note(self, key: str, tensor: Tensor) -> None:
        """The model's own input: it is golden as it comes."""
        self.handed[identity_of(tensor)] = (tensor, self.plan.resolve(key))

    def _is_handed_on(self, key: str, tensor: Tensor) -> bool:
        """Whether a tensor is the golden one of this key, as it was handed out."""
        identity = identity_of(tensor)
        return identity in self.handed and self.handed[identity][1] == self.plan.resolve(key)

    def _returned(self, key: str, tensor: Tensor, *, is_last: bool) -> Tensor:
        """What a call returns. A golden tensor may have been cast, or be a mask in another form, to be handed out.

        That is no doing of an inner call that returns it. What the model itself returns must not be in another form.
        """
        golden = self.plan.value(key)
        is_changed = is_last and kind_of(tensor) != kind_of(golden)
        return golden if self._is_handed_on(key, tensor) and not is_changed else tensor.detach().clone()

    def _golden(self, key: str, tensor: Tensor) -> Tensor:
        """The golden tensor in the place of one that a call is given or returns, in the form of that one."""
        golden = self.plan.value(key)
        if self._is_handed_on(key, tensor) or golden.shape != tensor.shape:
            return tensor
        is_same = _is_equal(golden, tensor) or is_same_mask(golden, tensor)
        expected = tensor if is_same else like(in_form_of(tensor, golden), tensor)
        self.handed[identity_of(expected)] = (expected, self.plan.resolve(key))
        return expected


def _is_equal(golden: Tensor, tensor: Tensor) -> bool:
    is_alike = golden.dtype == tensor.dtype and golden.device == tensor.device
    return is_alike and torch.equal(golden, tensor)


def at_places(keys: Sequence[str], known: list[Path], places: list[Path]) -> list[tuple[str, int]]:
    """The keys with the positions of their tensors, as far as these are there."""
    if known == places:
        return list(zip(keys, range(len(places)), strict=True))
    at = {place: index for index, place in enumerate(places)}
    return [(key, at[place]) for key, place in zip(keys, known, strict=True) if place in at]
