"""Elements among their like: a tensor's elements in bins by the magnitude of the truth."""

from __future__ import annotations

import torch
from torch import Tensor

FACTOR = 4
"""Elements of a bin differ by no more than this factor, unless bins were joined."""
ENOUGH = 64
"""Elements that a bin must have; a smaller one is joined with its neighbour."""


def bins(truth: Tensor) -> list[Tensor]:
    """The elements of each bin, as indices into the flat tensor, from small to large magnitudes."""
    flat = truth.detach().double().flatten().abs()
    least = torch.finfo(torch.float32).smallest_normal
    steps = (flat.clamp(min=least).log2() / torch.tensor(FACTOR).log2()).floor()
    order = steps.argsort(stable=True)
    sizes = torch.unique_consecutive(steps[order], return_counts=True)[1].tolist()
    return list(torch.split(order, _joined(sizes)))


def _joined(sizes: list[int]) -> list[int]:
    """Sizes in order, small ones added to the next; what is left over at the end, to the one before."""
    found: list[int] = []
    pending = 0
    for size in sizes:
        pending += size
        if pending >= ENOUGH:
            found.append(pending)
            pending = 0
    if pending and found:
        found[-1] += pending
    elif pending:
        found.append(pending)
    return found


def floors_moved(golden: Tensor, value: Tensor, residual: Tensor | None) -> float:
    """How many noise floors the bin is moved that is moved most: by RMS, or by its largest difference.

    The floor of a bin is eager PyTorch's distance from the truth there, but at least a rounding of its elements.
    `residual` is the truth less the golden value. Elements that are not finite on both sides are left out.
    """
    if golden.numel() == 0:
        return 0.0
    wide, moved = golden.detach().double().flatten(), value.detach().double().flatten()
    distance = torch.zeros_like(wide) if residual is None else residual.detach().double().flatten()
    is_finite = wide.isfinite() & moved.isfinite()
    wide, moved, distance = wide[is_finite], moved[is_finite], distance[is_finite]
    step, least = torch.finfo(golden.dtype).eps / 2, torch.finfo(golden.dtype).tiny
    most = 0.0
    for elements in bins(wide + distance):
        difference, noise, truth = (moved - wide)[elements], distance[elements], (wide + distance)[elements]
        for size in (_rms, _largest):
            most = max(most, size(difference) / max(size(noise), step * size(truth), least))
    return most


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


def _largest(values: Tensor) -> float:
    return float(values.abs().max())
