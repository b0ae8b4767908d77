"""Operations that choose: they give the places of some elements, or whether one is less than another.

Where what is chosen from is nearly equal, kernels that are right choose otherwise than eager PyTorch does. A choice is
as good as any other if it is possible, and what was chosen is no worse than rounding may make it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchport.capture.torch_internals import OpOverload
from torchport.debug.kernel_diff.steps import Step

aten: Any = torch.ops.aten
Arguments = Mapping[str, Any]


class Chooser(NamedTuple):
    place: int | None
    """Which of the results is the choice; None if there is but one."""
    deficit: Callable[[Any, Arguments, Tensor], Tensor]
    """From what the operation gives, its arguments, and another choice: how much worse that is, by element. It is not a
    number, or infinite, where nobody could choose so."""
    sides: tuple[str, ...] = ("self", "self")
    """The arguments that are held against each other."""


def bound(func: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, those that are left out as well."""
    named = func._schema.arguments
    given = {argument.name: argument.default_value for argument in named if argument.has_default_value()}
    return {**given, **{argument.name: one for argument, one in zip(named, args, strict=False)}, **kwargs}


def of_pool(found: Any, given: Arguments, chosen: Tensor, axes: int = 2) -> Tensor:
    """Of the places of the largest elements, within planes of some axes; results are the elements, and the places."""
    best = found[0]
    rows = given["self"].flatten(-axes)
    size = rows.shape[-1]
    places = chosen.long().flatten(-axes)
    there = rows.gather(-1, places.clamp(0, size - 1)).view(best.shape)
    is_inside = (places >= 0) & (places < size)
    return torch.where(is_inside.view(best.shape) & _in_window(given, chosen, axes), best - there, math.inf)


def _in_window(given: Arguments, chosen: Tensor, axes: int) -> Tensor:
    """Whether each element was chosen from its own window."""
    kernel = _each(given["kernel_size"], [])
    stride, padding, dilation = (
        _each(given[name], usual) for name, usual in (("stride", kernel), ("padding", [0]), ("dilation", [1]))
    )
    left = chosen.long()
    is_in = torch.ones_like(chosen, dtype=torch.bool)
    for axis in reversed(range(axes)):
        size = given["self"].shape[axis - axes]
        at, left = left % size, left // size
        windows = torch.arange(chosen.shape[axis - axes], device=chosen.device)
        start = windows * stride[axis % len(stride)] - padding[axis % len(padding)]
        step = at - start.view([-1] + [1] * (axes - 1 - axis))
        spread = dilation[axis % len(dilation)]
        is_in &= (step >= 0) & (step % spread == 0) & (step // spread < kernel[axis % len(kernel)])
    return is_in


def _each(given: Sequence[int] | int, usual: list[int]) -> list[int]:
    return [given] if isinstance(given, int) else list(given) or usual


def _along_an_axis(found: Any, given: Arguments, chosen: Tensor) -> Tensor:
    """Of the largest or least elements along an axis, or of all of them in order."""
    return _gathered(given["self"], given["dim"], chosen, found[0])


def _of_all(found: Tensor, given: Arguments, chosen: Tensor) -> Tensor:
    """Of the place of the largest or least element, along an axis or of all."""
    values, axis = given["self"], given["dim"]
    if axis is None:
        return _gathered(values.flatten(), 0, chosen.view(1), values.flatten()[found].view(1)).view(
            chosen.shape
        )
    axis = axis % values.dim()
    places, best = ((one if given["keepdim"] else one.unsqueeze(axis)) for one in (chosen, found))
    return _gathered(values, axis, places, values.gather(axis, best)).view(chosen.shape)


def _gathered(values: Tensor, axis: int, places: Tensor, best: Tensor) -> Tensor:
    if values.dim() == 0:
        return torch.where(places == 0, 0.0, math.inf)
    axis = axis % values.dim()
    is_dropped = best.dim() < values.dim()
    best, places = ((one.unsqueeze(axis) if is_dropped else one) for one in (best, places))
    size = values.shape[axis]
    there = values.gather(axis, places.clamp(0, size - 1))
    is_twice = (places.sort(axis).values.diff(dim=axis) == 0).any(axis, keepdim=True)
    possible = (places >= 0) & (places < size) & ~is_twice
    found = torch.where(possible, (best - there).abs(), math.inf)
    return found.squeeze(axis) if is_dropped else found


def _in_stable_order(found: Any, given: Arguments, chosen: Tensor) -> Tensor:
    """Elements that are equal keep their order."""
    deficit = _along_an_axis(found, given, chosen)
    return (
        torch.where((deficit == 0) & (chosen != found[1]), math.inf, deficit) if given["stable"] else deficit
    )


def _of_order(found: Tensor, given: Arguments, chosen: Tensor) -> Tensor:
    """Of which of two elements is less."""
    return torch.where(found == chosen, 0.0, (given["self"] - given["other"]).abs())


_COMPARISONS = [
    overload
    for packet in (aten.lt, aten.le, aten.gt, aten.ge, aten.eq, aten.ne)
    for overload in (packet.Scalar, packet.Tensor)
]
CHOOSERS: dict[Any, Chooser] = {
    aten.max_pool2d_with_indices.default: Chooser(1, of_pool),
    aten.max_pool3d_with_indices.default: Chooser(1, partial(of_pool, axes=3)),
    aten.max.dim: Chooser(1, _along_an_axis),
    aten.min.dim: Chooser(1, _along_an_axis),
    aten.topk.default: Chooser(1, _along_an_axis),
    aten.sort.default: Chooser(1, _along_an_axis),
    aten.sort.stable: Chooser(1, _in_stable_order),
    aten.argmax.default: Chooser(None, _of_all),
    aten.argmin.default: Chooser(None, _of_all),
    **dict.fromkeys(_COMPARISONS, Chooser(None, _of_order, ("self", "other"))),
}


def choice_of(step: Step) -> torch.fx.Node | None:
    """The node whose value is what an operation chooses; None if it does not choose, or nobody reads that."""
    if str(step.node.target) == OFFSETS_TO_PLACES:
        return step.node
    if (how := CHOOSERS.get(step.node.target)) is None:
        return None
    return next((value for value in step.values if how.place is None or value.args[1] == how.place), None)


POOL_BY_OFFSETS = "prims._low_memory_max_pool_with_offsets.default"
"""Inductor's own pool gives places within windows …"""
OFFSETS_TO_PLACES = "prims._low_memory_max_pool_offsets_to_indices.default"
"""… of which this makes places of elements."""
