"""What is reported if no hypothesis explains the difference."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis

_FACTORS = (1e-4, 1e4)


def result_scaled(operation: BoundOperation) -> Iterator[Hypothesis]:
    """The whole result times a number, whatever the reason may be."""
    if isinstance(operation.result, torch.Tensor) and operation.result.is_floating_point():
        text = "the result is {value} times what it should be"
        yield Hypothesis("scale", text, partial(torch.mul, operation.result), _FACTORS)
