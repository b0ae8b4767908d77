"""How the weights that a port loads differ from those that were recorded.

Both tensors are at hand, so nothing is guessed: a stored tensor that is not the recorded one is recognised, if
possible, as a transposed, rounded, reordered or spoilt form of it, or as another weight of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path

import torch

from torchport.capture.weights import FileWeights

_FEWEST_ELEMENTS = 16
"""A weight with fewer is not looked for in mixtures: a number can be fitted to any few."""
_MOST_LEFT = 1e-4
"""The share of the squared change that a mixture may leave."""


@dataclass(frozen=True)
class Others:
    """The file with all weights of the recording, of which one may stand in another's place."""

    path: Path

    def like(self, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """The weights of the same shape, each with its name."""
        if not self.path.is_file():
            return
        weights = FileWeights(self.path)
        for name in weights:
            if weights.meta(name).shape == tuple(tensor.shape):
                yield name, weights.read(name)


@dataclass(frozen=True)
class WeightFault:
    """The kind of hypothesis that it supports, and a sentence for the user."""

    kind: str
    text: str


def other_than_recorded(
    recorded: Mapping[str, torch.Tensor], stored: Mapping[str, torch.Tensor]
) -> list[str]:
    """The names of the weights that the port loads and that are not those of the recording."""
    return [name for name, tensor in stored.items() if not _equal(tensor, recorded[name])]


def how_it_differs(name: str, stored: torch.Tensor, recorded: torch.Tensor, others: Others) -> WeightFault:
    """What a stored weight is beside the recorded one: transposed, rounded, another layer's, …"""
    if stored.shape != recorded.shape:
        text = f"{name} has shape {list(stored.shape)}, the recorded one {list(recorded.shape)}"
        return WeightFault("stale_weight", text)
    for recognise in _FORMS if recorded.is_floating_point() else _FORMS_OF_ANY_DTYPE:
        found = recognise(name, stored, recorded)
        if found is not None:
            return found
    for other, tensor in others.like(stored):
        if other != name and _equal(tensor, stored):
            return WeightFault("neighbour_weight", f"{name} is {other}")
    mixed = _mixed(name, stored, recorded, others) if recorded.is_floating_point() else None
    return mixed or WeightFault("stale_weight", f"{name} is not the tensor that was recorded")


def _mixed(name: str, stored: torch.Tensor, recorded: torch.Tensor, others: Others) -> WeightFault | None:
    """The recorded weight with a part of another one, as if the two were averaged."""
    if recorded.numel() < _FEWEST_ELEMENTS:
        return None
    change = stored.double() - recorded.double()
    for other, tensor in others.like(stored):
        towards = tensor.double() - recorded.double()
        size = towards.square().sum()
        share = ((change * towards).sum() / size).item() if size else 0.0
        if share and (change - share * towards).square().sum() <= _MOST_LEFT * change.square().sum():
            return WeightFault("mixed_weight", f"{name} is {share:.2g} of the way to {other}")
    return None


_Form = Callable[[str, torch.Tensor, torch.Tensor], WeightFault | None]
"""Takes a name, the stored and the recorded tensor; gives None if the one is not this form of the other."""


def _transposed(name: str, stored: torch.Tensor, recorded: torch.Tensor) -> WeightFault | None:
    for first, second in combinations(range(recorded.ndim), 2):
        same_size = recorded.shape[first] == recorded.shape[second]
        if same_size and _equal(stored, recorded.transpose(first, second)):
            return WeightFault("transposed_weight", f"{name} is transposed (axes {first} and {second})")
    return None


def _reordered(name: str, stored: torch.Tensor, recorded: torch.Tensor) -> WeightFault | None:
    """The gates of a GRU or an LSTM, or query, key and value in one tensor, in another order."""
    for number in (3, 4):
        if not recorded.shape or recorded.shape[0] % number or recorded.shape[0] <= number:
            continue
        parts = recorded.chunk(number)
        for order in permutations(range(number)):
            if list(order) != sorted(order) and _equal(stored, torch.cat([parts[i] for i in order])):
                text = f"the {number} parts of {name} are in the order {list(order)}"
                return WeightFault("gate_order", text)
    return None


def _nan(name: str, stored: torch.Tensor, recorded: torch.Tensor) -> WeightFault | None:
    spoilt = int((torch.isnan(stored) & ~torch.isnan(recorded)).sum())
    return WeightFault("nan", f"{name} has NaN at {spoilt} of {stored.numel()} places") if spoilt else None


def _zeros(name: str, stored: torch.Tensor, recorded: torch.Tensor) -> WeightFault | None:
    if stored.any():
        return None
    is_bias = name.rpartition(".")[2].startswith("bias")
    return WeightFault("bias" if is_bias else "stale_weight", f"{name} is all zeros")


def _ones(name: str, stored: torch.Tensor, recorded: torch.Tensor) -> WeightFault | None:
    all_ones = torch.equal(stored, torch.ones_like(stored))
    return WeightFault("scale", f"{name} is all ones") if all_ones else None


def _rounded(name: str, stored: torch.Tensor, recorded: torch.Tensor) -> WeightFault | None:
    for dtype in (torch.float16, torch.bfloat16):
        if _equal(stored, recorded.to(dtype).to(recorded.dtype)):
            return WeightFault("half", f"{name} is rounded to {str(dtype).removeprefix('torch.')}")
    return None


def _one_element(name: str, stored: torch.Tensor, recorded: torch.Tensor) -> WeightFault | None:
    changed = torch.nonzero(stored != recorded)
    if len(changed) != 1:
        return None
    place = tuple(changed[0].tolist())
    text = f"{name} differs at {list(place)}: {stored[place]:g}, recorded {recorded[place]:g}"
    return WeightFault("one_element", text)


_FORMS_OF_ANY_DTYPE: tuple[_Form, ...] = (_transposed, _reordered)
_FORMS: tuple[_Form, ...] = (*_FORMS_OF_ANY_DTYPE, _nan, _zeros, _ones, _rounded, _one_element)
"""The first form that is recognised is reported."""


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors have the same numbers, whatever their types; NaN equals NaN."""
    return first.shape == second.shape and torch.equal(
        torch.nan_to_num(first.double(), 1.25e300), torch.nan_to_num(second.double(), 1.25e300)
    )
