"""Less precision than the model has: the operation, one of its operands or its result in half precision."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.hypotheses.hypothesis import Hypothesis

_HALF = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def half(operation: BoundOperation) -> Iterator[Hypothesis]:
    if not isinstance(operation.result, torch.Tensor) or operation.result.dtype != torch.float32:
        return
    for name, dtype in _HALF.items():
        yield Hypothesis("half", f"it is computed in {name}", partial(_computed_in, operation, dtype))
        for operand, value in operation.tensors.items():
            if value.dtype == torch.float32:
                text = f"{operand} is rounded to {name}"
                yield Hypothesis("half", text, partial(_with_rounded, operation, operand, dtype))
        text = f"the result is rounded to {name}"
        yield Hypothesis("half", text, partial(_rounded, operation.result, dtype))


def _computed_in(operation: BoundOperation, dtype: torch.dtype) -> torch.Tensor:
    narrow = {name: _narrowed(value, dtype) for name, value in operation.arguments.items()}
    # oneDNN is off: on virtual machines that claim to have AMX and do not, its bfloat16 products end the process by an
    # illegal instruction, which no `except` can catch. TF32 is left as it is, for torch warns if it is set.
    with torch.backends.mkldnn.flags(enabled=False, allow_tf32=None):
        result: torch.Tensor = operation.overload(**narrow)
    return result.to(operation.result.dtype)


def _narrowed(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
        return value.to(dtype)
    return [_narrowed(item, dtype) for item in value] if isinstance(value, list) else value


def _with_rounded(operation: BoundOperation, operand: str, dtype: torch.dtype) -> Any:
    return operation(**{operand: _rounded(operation[operand], dtype)})


def _rounded(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype).to(tensor.dtype)
