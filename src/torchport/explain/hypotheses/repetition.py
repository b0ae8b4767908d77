"""An operation is applied twice, or one of its operands counts twice, or with the other sign."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis


def applied_twice(operation: BoundOperation) -> Iterator[Hypothesis]:
    """The result is given to the operation again."""
    result = operation.result
    if not isinstance(result, torch.Tensor) or operation.is_a_copy:
        return
    for name, operand in operation.tensors.items():
        alike = operand.shape == result.shape and operand.dtype == result.dtype
        if alike and not operation.is_weight(name):
            others = [other for other in operation.tensors if other != name]
            subject = " and ".join(map(operation.described, others)) or operation.short_name
            text = f"{subject} is applied twice"
            yield Hypothesis("repeated", text, partial(operation, **{name: result}))


def operand_counts_otherwise(operation: BoundOperation) -> Iterator[Hypothesis]:
    """An operand twice as large, or with the other sign."""
    for name, operand in operation.tensors.items():
        if not operand.is_floating_point():
            continue
        twice = f"{operation.described(name)} counts twice"
        yield Hypothesis("repeated", twice, partial(_with_factor, operation, name, 2.0))
        if not operation.is_a_copy:
            sign = f"{operation.described(name)} has the other sign"
            yield Hypothesis("sign", sign, partial(_with_factor, operation, name, -1.0))


def _with_factor(operation: BoundOperation, name: str, factor: float) -> Any:
    return operation(**{name: operation[name] * factor})
