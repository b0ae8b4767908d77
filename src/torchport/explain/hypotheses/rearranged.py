"""The slices of a value along one axis are in other places: rolled, shifted, reversed, repeated, or zero.

For the result the places are found by comparing every slice with every other. For an operand, whose wrong form is not
known, the usual mistakes are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis

_MOST_PRODUCTS = 2**29
"""Slices are not compared if that takes more products."""
_SMALLEST_SLICE = 4
_WHOLE_NUMBERS = {torch.int8, torch.int16, torch.int32, torch.int64}
"""Of these, a slice may have one element: positions are told from each other by it."""
_CLEARLY_NEARER = 0.01
"""The share of a slice's squared error that may be left if the slice is said to come from elsewhere."""
_SHOWN = 8
_ZERO = -1
"""The source of a slice that is zero."""
_MASKS = {"attn_mask", "mask", "condition"}


@dataclass(frozen=True)
class Sources:
    """For each slice along an axis, which one of the right value stands there."""

    axis: int
    places: list[int]

    def applied(self, value: torch.Tensor) -> torch.Tensor:
        places = torch.tensor(self.places, device=value.device)
        moved = value.index_select(self.axis, places.clamp(min=0))
        kept = (places != _ZERO).reshape([-1 if axis == self.axis else 1 for axis in range(value.ndim)])
        return torch.where(kept, moved, torch.zeros_like(moved))

    @property
    def described(self) -> tuple[str, str]:
        """The kind of hypothesis, and what happened to the slices."""
        places, size, axis = self.places, len(self.places), f"axis {self.axis}"
        zeros = [index for index, place in enumerate(places) if place == _ZERO]
        rest = [(index, place) for index, place in enumerate(places) if place != _ZERO]
        steps = {place - index for index, place in rest}
        if zeros and steps <= {0}:
            return "zeroed", f"zero at {_some(zeros)} of {axis}"
        if len(steps) == 1:
            return "shifted", f"shifted by {-steps.pop()} along {axis}, with zeros at the end that is free"
        if zeros:
            return "permuted", f"along {axis} made of the slices {_some(places)}, of which {_ZERO} is zero"
        by = (places[0] or size) if places[0] else size - places[-1] - 1
        if by and places == [(index + by) % size for index in range(size)]:
            return "shifted", f"rolled by {-by if 2 * by <= size else size - by} along {axis}"
        for step in (1, -1):
            if places == [min(max(index + step, 0), size - 1) for index in range(size)]:
                return "shifted", f"shifted by {-step} along {axis}, with the slice at the end repeated"
        return "permuted", _order(places, axis)


def _order(places: list[int], axis: str) -> str:
    size = len(places)
    if places == list(range(size))[::-1]:
        return f"reversed along {axis}"
    if len(set(places)) == 1:
        return f"slice {places[0]} of {axis} everywhere"
    period = max(places) + 1
    if places == [index % period for index in range(size)]:
        return f"started again after every {period} of {axis}"
    return f"along {axis} in the order {_some(places)}"


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    return f"[{shown}{', …' if len(numbers) > _SHOWN else ''}]"


def result_rearranged(operation: BoundOperation) -> Iterator[Hypothesis]:
    golden, observed = operation.result, operation.observed
    if observed is None or not isinstance(golden, torch.Tensor):
        return
    if observed.shape != golden.shape or not bool(torch.isfinite(golden).all()):
        return
    for axis in range(golden.ndim):
        sources = _find_sources(golden, observed, axis)
        if sources is not None:
            kind, happened = sources.described
            subject = "the mask" if golden.dtype == torch.bool else "the result"
            kind = "mask" if golden.dtype == torch.bool else kind
            yield Hypothesis(kind, f"{subject} is {happened}", partial(sources.applied, golden))


def _find_sources(golden: torch.Tensor, observed: torch.Tensor, axis: int) -> Sources | None:
    """Which slices stand where others should; None if all slices stand where they should, or come from nowhere."""
    size = golden.shape[axis]
    elements = golden.numel() // max(size, 1)
    smallest = 1 if golden.dtype in _WHOLE_NUMBERS else _SMALLEST_SLICE
    if size < 2 or elements < smallest or size * size * elements > _MOST_PRODUCTS:
        return None
    right, given = (value.movedim(axis, 0).reshape(size, -1).double() for value in (golden, observed))
    sizes = [value.square().sum(1) for value in (given, right)]
    nearest = (sizes[0][:, None] + sizes[1][None, :] - 2 * given @ right.T).min(dim=1)
    own = (given - right).square().sum(1)
    is_moved = nearest.values <= _CLEARLY_NEARER * own
    is_zero = ~given.any(dim=1) & right.any(dim=1) & right.any(dim=1).all()
    places = torch.where(is_moved & (own > 0), nearest.indices, torch.arange(size))
    places = torch.where(is_zero, _ZERO, places)
    found = places.tolist()
    return None if found == list(range(size)) else Sources(axis, found)


def operand_rearranged(operation: BoundOperation) -> Iterator[Hypothesis]:
    """Tried only if the operation's result is known: elsewhere each try would run the rest of the layer."""
    if operation.observed is None or operation.is_a_copy:
        return
    for name, operand in operation.tensors.items():
        for axis in range(operand.ndim if not operation.is_weight(name) else 0):
            for places in _usual_mistakes(operand.shape[axis]):
                sources = Sources(axis, places)
                kind, happened = sources.described
                text = f"{operation.described(name)} is {happened}"
                kind = "mask" if name in _MASKS else kind
                yield Hypothesis(kind, text, partial(_with_changed, operation, name, sources.applied))


def _usual_mistakes(size: int) -> Iterator[list[int]]:
    if size < 2:
        return
    slices = list(range(size))
    yield [slices[-1], *slices[:-1]]
    if size > 2:
        yield [*slices[1:], slices[0]]
        yield slices[::-1]
    yield [_ZERO, *slices[:-1]]
    yield [*slices[1:], _ZERO]
    yield [*slices[:-1], _ZERO]
    yield [_ZERO, *slices[1:]]
    yield [0] * size


def _with_changed(operation: BoundOperation, name: str, change: Callable[[torch.Tensor], Any]) -> Any:
    return operation(**{name: change(operation[name])})
