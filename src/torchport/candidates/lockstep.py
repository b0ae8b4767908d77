"""Running in lock-step: what each call computes from golden inputs is written down, and golden values are
handed on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from torchport.candidates.golden import GoldenPlan
from torchport.candidates.identity import Identities, Memory, TensorIdentity, identity_of, is_equal
from torchport.candidates.in_place import HandedInput, handed_inputs
from torchport.candidates.leaves import Path
from torchport.candidates.masks import in_form_of, is_same_mask
from torchport.candidates.places import kind_of
from torchport.candidates.precision import like
from torchport.candidates.probing import NotRepeated, WatchedCall
from torchport.candidates.twins import Twins
from torchport.capture.torch_internals import storage_id
from torchport.trace.residual import residual


@dataclass
class LockStep(NotRepeated):
    """A probe for a candidate, and for the reference itself in another dtype."""

    plan: GoldenPlan
    side: str
    """The model that is run: `reference` or `candidate`."""
    wrong: set[str] = field(default_factory=set)
    """Calls that lack an output of the reference's, so that golden ones cannot be put in the place of theirs."""
    written: dict[str, Tensor] = field(default_factory=dict)
    identities: Identities = field(default_factory=Identities)
    handed: dict[TensorIdentity, str] = field(default_factory=dict)
    """The golden tensors that were handed out, and which value each is."""
    memory: Memory = field(default_factory=Memory)
    """What these tensors are in."""
    given: dict[str, list[HandedInput]] = field(default_factory=dict)
    """By call that is going on, what it was given."""
    twins: Twins = field(default_factory=Twins)

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
                golden = self.plan.value(key)
                self._write(key, in_form_of(golden, tensors[index]).detach(), copy=True)
                result[index] = self._golden(key, tensors[index], is_equal(golden, tensors[index]))
        self.given[call.name] = handed_inputs(tensors, result)
        return result

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None or call.name in self.wrong:
            return tensors
        result = list(tensors)
        given = self.given.pop(call.name, [])
        written = {storage_id(one.handed) for one in given if identity_of(one.handed) != one.before}
        for key, index in at_places(step.outputs, self.plan.places[self.side].returned[call.name], places):
            golden, tensor = self.plan.value(key), tensors[index]
            is_golden, is_handed_on = is_equal(golden, tensor), self._is_handed_on(key, tensor)
            # A golden tensor that was cast, or is a mask in another form, is no doing of an inner call that returns it.
            # What the model itself returns must not be in another form.
            is_changed = step.parent is None and kind_of(tensor) != kind_of(golden)
            if is_golden or (is_handed_on and not is_changed):
                self._write(key, golden)
            else:
                self._write(key, tensor.detach(), copy=True)
            result[index] = tensor if is_handed_on else self._golden(key, tensor, is_golden, written)
        returned = {storage_id(tensor) for tensor in result}
        for one in given:
            if one.handed is not one.original and storage_id(one.handed) in returned:
                self.twins.pair_up(one.original, one.handed)
        return result

    def _write(self, key: str, value: Tensor, *, copy: bool = False) -> None:
        self.written[key] = value.clone() if copy else value

    def _note(self, key: str, tensor: Tensor) -> None:
        """The model's own input: it is golden as it comes."""
        self._hand_out(tensor, self.plan.resolve(key))

    def _hand_out(self, tensor: Tensor, stored: str) -> None:
        self.handed[self.identities.of(tensor)] = stored
        self.memory.add(tensor)

    def _is_handed_on(self, key: str, tensor: Tensor) -> bool:
        """Whether a tensor is the golden one of this key, as it was handed out."""
        return self.handed.get(self.identities.of(tensor)) == self.plan.resolve(key)

    def _golden(self, key: str, tensor: Tensor, is_golden: bool, written: Collection[int] = ()) -> Tensor:
        """The golden tensor in the place of another that a call is given or returns, in the form of that one.

        `is_golden` says whether that one has golden values, and `written` is the memory of the call's inputs that it
        has written to.
        """
        golden = self.plan.value(key)
        if golden.shape != tensor.shape:
            return tensor
        expected = tensor if is_golden else self._with_golden_values(tensor, golden, written)
        self._hand_out(expected, self.plan.resolve(key))
        return expected

    def _with_golden_values(self, tensor: Tensor, golden: Tensor, written: Collection[int]) -> Tensor:
        """A tensor of golden values: the tensor itself if it is a mask that means the same, otherwise a copy.

        A part of a tensor that was handed out stays a part of it, because the caller may write to one and read both.
        Gradients flow through a copy as they do through the tensor, because the caller may differentiate.
        """
        if is_same_mask(golden, tensor):
            return tensor
        expected = like(in_form_of(tensor, golden), tensor)
        if tensor in self.memory and is_equal(expected, tensor):
            return tensor
        if tensor.requires_grad and torch.is_grad_enabled():
            return with_values(tensor, expected)
        can_be_written = expected.dtype == tensor.dtype and not _repeats_elements(tensor)
        return tensor.copy_(expected) if storage_id(tensor) in written and can_be_written else expected


@dataclass
class TrueDistances(LockStep):
    """A probe for the reference in float64. What is written down is how far golden values are from what it computes."""

    golden: Mapping[str, Tensor] = field(default_factory=dict)
    """By key, the values whose distance is asked for."""

    def _write(self, key: str, value: Tensor, *, copy: bool = False) -> None:
        distance = residual(self.golden[key], value) if key in self.golden else None
        if distance is not None:
            self.written[key] = distance


class _OtherValues(torch.autograd.Function):
    """Other values in the place of a tensor's, with the gradient of the tensor."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, values: Tensor) -> Tensor:
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:  # type: ignore[override]
        return gradient, None


def with_values(tensor: Tensor, values: Tensor) -> Tensor:
    """A tensor with other values that gradients flow through to where the tensor came from."""
    found: Tensor = _OtherValues.apply(tensor, values)  # type: ignore[no-untyped-call]
    return found


def _repeats_elements(tensor: Tensor) -> bool:
    """Whether several elements of a tensor are one number in memory, as in one that was expanded."""
    return any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def at_places(keys: Sequence[str], known: list[Path], places: list[Path]) -> list[tuple[str, int]]:
    """The keys with the positions of their tensors, as far as these are there."""
    if known == places:
        return list(zip(keys, range(len(places)), strict=True))
    at = {place: index for index, place in enumerate(places)}
    return [(key, at[place]) for key, place in zip(keys, known, strict=True) if place in at]
