"""The result is another by numbers alone: scaled, scaled in some slices, or clipped. The numbers are fitted exactly."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.fitting import rounded
from torchport.explain.hypotheses.hypothesis import Hypothesis
from torchport.parity.percent import percent

_FEWEST_ELEMENTS = 16
_FEWEST_CLIPPED = 3
_SAME = 1e-5
"""By how much of their size two factors may differ that are called the same."""
_MOST_SLICES = 4
"""If more slices have a factor of their own than this, no mistake is known that would do so."""


def scaled(operation: BoundOperation) -> Iterator[Hypothesis]:
    """The whole result times a number."""
    both = _known(operation)
    if both is None:
        return
    golden, observed = both
    factor = _factor(golden, observed)
    if factor is None or factor == 0.0:
        return
    if abs(factor + 1.0) < _SAME:
        yield Hypothesis("sign", "the result has the other sign", partial(torch.neg, operation.result))
        return
    factor = rounded(factor, digits=6)
    text = f"the result is {factor:.6g} times what it should be"
    yield Hypothesis("scale", text, partial(torch.mul, operation.result, factor))


def slices_scaled(operation: BoundOperation) -> Iterator[Hypothesis]:
    """A few slices along one axis times a number, and all others right."""
    both = _known(operation)
    if both is None:
        return
    golden, observed = both
    for axis in range(golden.ndim):
        factors = _factors(golden, observed, axis)
        other = torch.nonzero((factors - 1.0).abs() > 1e-4).flatten().tolist()
        if not 0 < len(other) <= min(_MOST_SLICES, len(factors) - 1):
            continue
        factor = factors[other].mean().item()
        if factor == 0.0 or bool(((factors[other] - factor).abs() > _SAME * abs(factor)).any()):
            continue
        changed = torch.ones(len(factors), dtype=operation.result.dtype)
        changed[other] = factor
        shape = [-1 if at == axis else 1 for at in range(golden.ndim)]
        text = (
            f"the result is {rounded(factor, digits=6):.6g} times what it should be at {other} of axis {axis}"
        )
        yield Hypothesis("scale", text, partial(torch.mul, operation.result, changed.reshape(shape)))


def clipped(operation: BoundOperation) -> Iterator[Hypothesis]:
    """All that is beyond the least or the largest number of the candidate's result is set to that."""
    both = _known(operation)
    if both is None:
        return
    golden, observed = both
    low, high = observed.min(), observed.max()
    below, above = golden < low, golden > high
    ends = [
        (name, end.item())
        for name, end, beyond in (("below", low, below), ("above", high, above))
        if bool(beyond.any()) and bool((observed[beyond] == end).all())
    ]
    if ends and int((below | above).sum()) >= _FEWEST_CLIPPED:
        text = "the result is clipped " + " and ".join(f"{name} {end:.6g}" for name, end in ends)
        limits = {"min" if name == "below" else "max": end for name, end in ends}
        yield Hypothesis("clipped", text, partial(torch.clamp, operation.result, **limits))


def dropped(operation: BoundOperation) -> Iterator[Hypothesis]:
    """Elements here and there are zero, as dropout leaves them."""
    both = _known(operation)
    if both is None:
        return
    golden, observed = both
    is_dropped = (observed == 0) & (golden != 0)
    share = is_dropped.double().mean().item()
    if not 0.01 < share < 0.99:
        return
    factor = _factor(golden[~is_dropped], observed[~is_dropped])
    for kept, text in (
        (factor, f"dropout is on, with p near {share:.2g}"),
        (1.0, f"{percent(share)} of the elements are zero"),
    ):
        if kept is not None:
            yield Hypothesis("dropout", text, partial(torch.where, is_dropped, 0.0, operation.result * kept))


def _known(operation: BoundOperation) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The right result and the candidate's, in double precision, if numbers can be fitted to them."""
    golden, observed = operation.result, operation.observed
    if observed is None or not isinstance(golden, torch.Tensor) or not golden.is_floating_point():
        return None
    if observed.shape != golden.shape or golden.numel() < _FEWEST_ELEMENTS:
        return None
    both = golden.double(), observed.double()
    return both if all(bool(torch.isfinite(value).all()) for value in both) else None


def _factor(golden: torch.Tensor, observed: torch.Tensor) -> float | None:
    """The number by which the right value comes nearest to the candidate's."""
    size = golden.square().sum().item()
    return (golden * observed).sum().item() / size if size else None


def _factors(golden: torch.Tensor, observed: torch.Tensor, axis: int) -> torch.Tensor:
    """The same for each slice along an axis; 1 for a slice that is zero."""
    rest = [other for other in range(golden.ndim) if other != axis]
    size = golden.square().sum(rest) if rest else golden.square()
    product = (golden * observed).sum(rest) if rest else golden * observed
    return torch.where(size > 0, product / size.clamp(min=torch.finfo(size.dtype).tiny), 1.0)
