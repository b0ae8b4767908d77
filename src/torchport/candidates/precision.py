"""The same model in another dtype: in float64 for the truth, or in that of a coarser candidate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from torchport.candidates.dtype_facts import facts_of

_NARROW = (torch.float16, torch.bfloat16, torch.float32)


@contextmanager
def in_dtype(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Every floating parameter and buffer in another dtype; afterwards the very same tensors are back."""
    before = [(tensor, tensor.data) for tensor in [*model.parameters(), *model.buffers()]]
    try:
        for tensor, data in before:
            if data.is_floating_point():
                tensor.data = data.to(dtype)
        yield
    finally:
        for tensor, data in before:
            tensor.data = data


@contextmanager
def in_float64(model: nn.Module) -> Iterator[None]:
    """Whatever the model's code casts to a narrower float, or makes in one, stays in float64.

    Only this thread computes in float64: torch's default dtype, which all threads share, is left alone.
    """
    narrow = coarsest([*model.parameters(), *model.buffers()]) or torch.float32
    with in_dtype(model, torch.float64), facts_of(narrow), _Widened():  # type: ignore[no-untyped-call]
        yield


class _Widened(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        # What an operation writes to must be the tensor itself and not a widened copy.
        if func._schema.is_mutable:
            return func(*_each(args, _dtype), **_each(kwargs, _dtype))
        result = func(*_each(args, _tensor_or_dtype), **_each(kwargs, _tensor_or_dtype))
        if not isinstance(result, Tensor) or result.dtype not in _NARROW:
            return result
        return _in_float64_itself(func, args, kwargs, result)


def _in_float64_itself(func: Any, args: Any, kwargs: dict[str, Any], narrow: Tensor) -> Tensor:
    """What an operation gives in float64 if its result has the default dtype, since none of its operands is a float."""
    is_random = torch.Tag.nondeterministic_seeded in func.tags
    if is_random or func is torch.ops.aten.lift_fresh.default:
        return narrow.double()
    if any(argument.name == "dtype" for argument in func._schema.arguments):
        made: Tensor = func(*args, **{**kwargs, "dtype": torch.float64})
        return made
    return _from_whole_numbers(func, args, kwargs, narrow)


def _from_whole_numbers(func: Any, args: Any, kwargs: dict[str, Any], narrow: Tensor) -> Tensor:
    """Arithmetic on whole numbers whose result is not whole, such as `positions / 3`."""
    try:
        wide = func(*_each(args, _whole_as_float64), **_each(kwargs, _whole_as_float64))
    except (RuntimeError, IndexError, TypeError, NotImplementedError):
        return narrow.double()
    is_same = isinstance(wide, Tensor) and wide.dtype == torch.float64 and wide.shape == narrow.shape
    if is_same and torch.allclose(wide, narrow.double(), rtol=1e-2, equal_nan=True):
        found: Tensor = wide
        return found
    return narrow.double()


def _whole_as_float64(value: Any) -> Any:
    is_whole = isinstance(value, Tensor) and not (value.is_floating_point() or value.is_complex())
    return value.double() if is_whole else value


def _dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value


def _tensor_or_dtype(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.dtype in _NARROW else value
    return _dtype(value)


def _each(tree: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, list | tuple):
        return type(tree)(_each(item, change) for item in tree)
    if isinstance(tree, dict):
        return {key: _each(item, change) for key, item in tree.items()}
    return change(tree)


def coarsest(tensors: Iterable[Tensor]) -> torch.dtype | None:
    """The floating dtype with the fewest digits; None where nothing floats."""
    floats = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    return max(floats, key=lambda dtype: torch.finfo(dtype).eps, default=None)


def is_coarser(dtype: torch.dtype, than: torch.dtype) -> bool:
    return torch.finfo(dtype).eps > torch.finfo(than).eps


def like(value: Tensor, other: Tensor) -> Tensor:
    """A copy where `other` is and in its dtype, if both float; what is of another kind stays of that kind."""
    dtype = other.dtype if value.is_floating_point() and other.is_floating_point() else value.dtype
    return value.detach().to(other.device, dtype, copy=True)
