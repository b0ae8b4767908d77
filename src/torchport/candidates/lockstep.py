"""Running in lock-step: what each call computes from golden inputs is written down, and golden values are
handed on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from torchport.candidates.golden import GoldenPlan, TensorIdentity, identity_of
from torchport.candidates.leaves import Path
from torchport.candidates.masks import in_form_of, is_same_mask
from torchport.candidates.precision import like
from torchport.candidates.probing import NotRepeated, WatchedCall
from torchport.capture.torch_internals import storage_id


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
    in_memory: dict[int, list[TensorIdentity]] = field(default_factory=lambda: defaultdict(list))
    """By the memory that they are in, the same tensors."""

    def enter(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None or not step.inputs:
            return tensors
        result = list(tensors)
        for key, index in at_places(step.inputs, self.plan.places[self.side].given[call.name], places):
            if step.parent is None:
                self._note(key, tensors[index])
            else:
                result[index] = self._given(key, tensors[index])
        return result

    def leave(self, call: WatchedCall, tensors: list[Tensor], places: list[Path]) -> list[Tensor]:
        step = self.plan.calls.get(call.name)
        if step is None or call.name in self.wrong:
            return tensors
        result = list(tensors)
        for key, index in at_places(step.outputs, self.plan.places[self.side].returned[call.name], places):
            result[index] = self._given(key, tensors[index], always=True)
        return result

    def _note(self, key: str, tensor: Tensor) -> None:
        """The model's own input: it is golden as it comes."""
        self._hand_out(tensor, self.plan.resolve(key))

    def _hand_out(self, tensor: Tensor, stored: str) -> None:
        identity = identity_of(tensor)
        self.handed[identity] = (tensor, stored)
        self.in_memory[storage_id(tensor)].append(identity)

    def _given(self, key: str, tensor: Tensor, always: bool = False) -> Tensor:
        stored = self.plan.resolve(key)
        is_handed_on = identity_of(tensor) in self.handed and self.handed[identity_of(tensor)][1] == stored
        golden = self.plan.value(key)
        if is_handed_on and always:
            # It may have been cast to be handed out, which is no doing of the call that returns it.
            self.written[key] = golden
        elif not is_handed_on:
            self.written[key] = in_form_of(golden, tensor).detach().clone()
        if is_handed_on or golden.shape != tensor.shape:
            return tensor
        expected = self._with_golden_values(tensor, golden)
        self._hand_out(expected, stored)
        return expected

    def _with_golden_values(self, tensor: Tensor, golden: Tensor) -> Tensor:
        """A tensor of golden values: the tensor itself if it has these, otherwise a copy.

        A part of a tensor that was handed out stays a part of it, because the caller may write to one and read both.
        It has other values than golden ones if a call has written to it, and then they are written, too.
        """
        if _is_equal(golden, tensor) or is_same_mask(golden, tensor):
            return tensor
        expected = like(in_form_of(tensor, golden), tensor)
        others = self.in_memory.get(storage_id(tensor), [])
        if not others or expected.dtype != tensor.dtype:
            return expected
        if torch.equal(expected, tensor):
            return tensor
        is_written = any(identity_of(self.handed[one][0]) != one for one in others)
        if is_written and not tensor.requires_grad and not _repeats_elements(tensor):
            return tensor.copy_(expected)
        return expected


def _is_equal(golden: Tensor, tensor: Tensor) -> bool:
    is_alike = golden.dtype == tensor.dtype and golden.device == tensor.device
    return is_alike and torch.equal(golden, tensor)


def _repeats_elements(tensor: Tensor) -> bool:
    """Whether several elements of a tensor are one number in memory, as in one that was expanded."""
    return any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def at_places(keys: Sequence[str], known: list[Path], places: list[Path]) -> list[tuple[str, int]]:
    """The keys with the positions of their tensors, as far as these are there."""
    if known == places:
        return list(zip(keys, range(len(places)), strict=True))
    at = {place: index for index, place in enumerate(places)}
    return [(key, at[place]) for key, place in zip(keys, known, strict=True) if place in at]
