"""Which tensor of a candidate's call stands for which of the reference's: by its place, or else by its form.

In: the tensors that a call is given or returns in both models. Out: pairs of positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from torchport.candidates.leaves import Path


class PlacedTensor(NamedTuple):
    """Where a tensor is among the parameters of forward, or in what it returns, and what form it has."""

    place: Path
    shape: torch.Size
    kind: str
    dtype: torch.dtype

    @classmethod
    def of(cls, place: Path, tensor: Tensor) -> PlacedTensor:
        return cls(place, tensor.shape, kind_of(tensor), tensor.dtype)

    def has_form_of(self, other: PlacedTensor) -> bool:
        return (self.shape, self.kind) == (other.shape, other.kind)


def kind_of(tensor: Tensor) -> str:
    if tensor.is_floating_point():
        return "float"
    if tensor.is_complex():
        return "complex"
    return "bool" if tensor.dtype == torch.bool else "int"


def partners(golden: Sequence[PlacedTensor], candidate: Sequence[PlacedTensor]) -> dict[int, int]:
    """For each golden position the candidate's, if there is one that means the same.

    Tensors at the same place belong together. If no place is the same and there are as many on both sides, their order
    decides. Otherwise those that are left belong together if just as many on both sides have the same form.
    """
    at = {one.place: index for index, one in enumerate(candidate)}
    found = {index: at[one.place] for index, one in enumerate(golden) if one.place in at}
    taken = set(found.values())
    ours = [index for index in range(len(golden)) if index not in found]
    theirs = [index for index in range(len(candidate)) if index not in taken]
    if not found and len(ours) == len(theirs):
        return dict(zip(ours, theirs, strict=True))
    for index in ours:
        alike = [other for other in theirs if candidate[other].has_form_of(golden[index])]
        own = [other for other in ours if golden[other].has_form_of(golden[index])]
        if len(alike) == len(own):
            found[index] = alike[own.index(index)]
    if not found and ours and theirs and candidate[theirs[0]].has_form_of(golden[ours[0]]):
        found[ours[0]] = theirs[0]
    return dict(sorted(found.items()))
