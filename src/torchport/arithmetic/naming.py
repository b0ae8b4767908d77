"""Which class of arithmetic explains how far a candidate is from the truth."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from torchport.arithmetic.classes import CLASSES, Arithmetic
from torchport.trace.residual import widened

SAME = 0.9
"""A candidate computes in a class if what the class computes explains this share of its squared error."""
LIKELY = (1 / 8, 2.0)
"""A class whose order of sums is not known explains errors of these multiples of its own."""
ALIKE = 0.3
"""How much more of an error than of the class's own error may be a multiple of the truth."""
RELATED = 0.5
"""The cosine of an error and that of a class with rounded operands, in a layer that does more than one product."""


def name_arithmetic(
    golden: Tensor, residual: Tensor, candidate: Tensor, computed: Callable[[Arithmetic], Tensor | None]
) -> Arithmetic | None:
    """The class that explains a value that is out of bounds, or None if none does.

    `computed` gives what each class computes. Operands that are rounded leave a trace that is the same in any order of
    sums, so these classes are known by the values themselves, nearly so if the layer does more than one product. Other
    classes are known by the size of their error, the nearest first, if the error is no more systematic than theirs.
    """
    truth = widened(golden) + widened(residual)
    error = widened(candidate) - truth
    if not (math.isfinite(float(error.norm())) and float(error.norm()) > 0):
        return None
    found = {
        one: widened(value) - truth
        for one in CLASSES
        if not one.is_eager and (value := computed(one)) is not None and _is_other(value, golden)
    }
    shares = {one: _share(error, own) for one, own in found.items() if one.running_sum is None}
    same = max(shares, key=lambda one: shares[one], default=None)
    if same is not None and shares[same] >= SAME:
        return next(one for one in found if shares.get(one, 0.0) >= max(SAME, shares[same] - 0.01))
    likely = [
        one
        for one, own in found.items()
        if _explains(own, error, truth) and (one.running_sum is not None or _cosine(own, error) > RELATED)
    ]
    return min(likely, key=lambda one: round(_apart(found[one], error), 1), default=None)


def _is_other(value: Tensor, golden: Tensor) -> bool:
    """Whether a class computes something else than eager PyTorch, which the golden value already is."""
    return value.shape == golden.shape and not torch.equal(value.to(golden.dtype), golden)


def _share(error: Tensor, own: Tensor) -> float:
    """The share of the squared error that is gone if the class is taken for true."""
    return 1.0 - float((error - own).abs().square().sum() / error.abs().square().sum())


def _explains(own: Tensor, error: Tensor, truth: Tensor) -> bool:
    least, most = (multiple * float(own.norm()) for multiple in LIKELY)
    return (
        least <= float(error.norm()) <= most
        and abs(_cosine(error, truth)) <= abs(_cosine(own, truth)) + ALIKE
    )


def _apart(own: Tensor, error: Tensor) -> float:
    """How many times as large the one is as the other, as a logarithm."""
    return abs(math.log(float(own.norm()) / float(error.norm())))


def _cosine(first: Tensor, second: Tensor) -> float:
    norms = float(first.norm() * second.norm())
    return float((first * second.conj()).real.sum()) / norms if norms else 0.0
