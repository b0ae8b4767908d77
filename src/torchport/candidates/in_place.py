"""Inputs that a call overwrites: what it writes reaches the tensor of its caller, though it was given another."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from torchport.candidates.identity import TensorIdentity, identity_of


class HandedInput(NamedTuple):
    """A tensor of the caller, what the call was given in its place, and what that was before the call."""

    original: Tensor
    handed: Tensor
    before: TensorIdentity


def handed_inputs(originals: list[Tensor], given: list[Tensor]) -> list[HandedInput]:
    pairs = zip(originals, given, strict=True)
    return [HandedInput(original, handed, identity_of(handed)) for original, handed in pairs]


def write_through(inputs: list[HandedInput], returned: list[Tensor], result: list[Tensor]) -> None:
    """Writes to the caller's tensors what the call wrote to those that it was given.

    `returned` is what the call returned, and `result` what goes on in its place. A call that returns the tensor that it
    wrote to, such as `nn.ReLU(inplace=True)`, has written what goes on.
    """
    for one in inputs:
        if identity_of(one.handed) == one.before:
            continue
        written = next(
            (new for old, new in zip(returned, result, strict=True) if old is one.handed), one.handed
        )
        if written is not one.original:
            one.original.copy_(written)
