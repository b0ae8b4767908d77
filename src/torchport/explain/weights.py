"""What may be wrong with the weights that a port loads, beside those that were recorded.

The stored tensor is at hand, so that nothing is guessed: where it is not the recorded one, it is said what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from pathlib import Path

import safetensors
import torch


@dataclass(frozen=True)
class Others:
    """All weights of the recording, of which one may stand in another's place."""

    path: Path

    def like(self, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """Those of the same shape, by name."""
        if not self.path.is_file():
            return
        with safetensors.safe_open(self.path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                if tuple(file.get_slice(name).get_shape()) == tuple(tensor.shape):
                    yield name, file.get_tensor(name)


def differing(recorded: Mapping[str, torch.Tensor], stored: Mapping[str, torch.Tensor]) -> list[str]:
    """The weights that the port loads and that are not those of the recording."""
    return [name for name, tensor in stored.items() if not _equal(tensor, recorded[name])]


def what_it_is(name: str, stored: torch.Tensor, recorded: torch.Tensor, others: Others) -> tuple[str, str]:
    """The kind of difference and a sentence: it is transposed, another layer's, rounded, …"""
    for kind, text in _known(name, stored, recorded):
        return kind, text
    for other, tensor in others.like(stored):
        if other != name and _equal(tensor, stored):
            return "neighbour_weight", f"{name} is {other}"
    return "stale_weight", f"{name} is not the tensor that was recorded"


def _known(name: str, stored: torch.Tensor, recorded: torch.Tensor) -> Iterator[tuple[str, str]]:
    if stored.shape != recorded.shape:
        yield (
            "stale_weight",
            f"{name} has shape {list(stored.shape)}, the recorded one {list(recorded.shape)}",
        )
        return
    for first, second in combinations(range(recorded.ndim), 2):
        if recorded.shape[first] == recorded.shape[second] and _equal(
            stored, recorded.transpose(first, second)
        ):
            yield "transposed_weight", f"{name} is transposed (axes {first} and {second})"
    for number in (3, 4):
        if recorded.shape and recorded.shape[0] % number == 0 and recorded.shape[0] > number:
            parts = recorded.chunk(number)
            for order in permutations(range(number)):
                if list(order) != sorted(order) and _equal(stored, torch.cat([parts[i] for i in order])):
                    yield "gate_order", f"the {number} parts of {name} are in the order {list(order)}"
    if not recorded.is_floating_point():
        return
    spoiled = torch.isnan(stored) & ~torch.isnan(recorded)
    if spoiled.any():
        yield "nan", f"{name} has NaN at {int(spoiled.sum())} of {stored.numel()} places"
    if not stored.any():
        yield (
            ("bias" if name.rpartition(".")[2].startswith("bias") else "stale_weight"),
            f"{name} is all zeros",
        )
    if torch.equal(stored, torch.ones_like(stored)):
        yield "scale", f"{name} is all ones"
    for dtype in (torch.float16, torch.bfloat16):
        if _equal(stored, recorded.to(dtype).to(recorded.dtype)):
            yield "half", f"{name} is rounded to {str(dtype).removeprefix('torch.')}"
    changed = torch.nonzero(stored != recorded)
    if len(changed) == 1:
        place = tuple(changed[0].tolist())
        yield (
            "one_element",
            f"{name} differs at {list(place)}: {stored[place]:g}, recorded {recorded[place]:g}",
        )


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.shape == second.shape and torch.equal(
        torch.nan_to_num(first.double(), 1.25e300), torch.nan_to_num(second.double(), 1.25e300)
    )
