"""Running in lock-step: what each call computes from golden inputs is written down, and golden values are
handed on."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from torchport.candidates.golden import GoldenPlan, TensorIdentity, identity_of
from torchport.candidates.leaves import Path, partners
from torchport.candidates.precision import like
from torchport.candidates.probing import NotRepeated, WatchedCall


@dataclass
class LockStep(NotRepeated):
    """A probe for a candidate, and for the reference itself in another dtype."""

    plan: GoldenPlan
    wrong: set[str] = field(default_factory=set)
    """Calls that lack an output of the reference's, so that golden ones cannot be put in the place of theirs."""
    written: dict[str, Tensor] = field(default_factory=dict)
    handed: dict[TensorIdentity, tuple[Tensor, str]] = field(default_factory=dict)
    """The golden tensors that were handed out, and which value each is."""

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        chosen = None if step is None else partners(self.plan.given_at[call.name], places)
        if step is None or chosen is None or not step.inputs:
            return tensors
        handle = self._note if step.parent is None else self._given
        result = list(tensors)
        for key, index in zip(step.inputs, chosen, strict=True):
            result[index] = handle(key, tensors[index])
        return result

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        chosen = None if step is None else partners(self.plan.returned_at[call.name], places)
        if step is None or chosen is None or call.name in self.wrong:
            return tensors
        result = list(tensors)
        for key, index in zip(step.outputs, chosen, strict=True):
            result[index] = self._given(key, tensors[index], always=True)
        return result

    def _note(self, key: str, tensor: Tensor) -> Tensor:
        """The model's own input: it is golden as it comes."""
        self.handed[identity_of(tensor)] = (tensor, self.plan.resolve(key))
        return tensor

    def _given(self, key: str, tensor: Tensor, always: bool = False) -> Tensor:
        stored = self.plan.resolve(key)
        is_handed_on = identity_of(tensor) in self.handed and self.handed[identity_of(tensor)][1] == stored
        if always or not is_handed_on:
            self.written[key] = tensor.detach().clone()
        golden = self.plan.value(key)
        if is_handed_on or golden.shape != tensor.shape:
            return tensor
        expected = like(golden, tensor)
        if expected.dtype == tensor.dtype and torch.equal(expected, tensor):
            expected = tensor
        self.handed[identity_of(expected)] = (expected, stored)
        return expected
