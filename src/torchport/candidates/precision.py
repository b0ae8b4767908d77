"""The same model in another dtype: in float64 for the truth, or in that of a coarser candidate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from torchport.candidates.dtype_facts import DtypeOfCall, facts_of
from torchport.candidates.probing import WatchedCall
from torchport.candidates.twins import Twins

NARROW = (torch.float16, torch.bfloat16, torch.float32)
_WIDE = {**dict.fromkeys(NARROW, torch.float64), torch.complex64: torch.complex128}
_ALL_THE_TIME = ""
"""Stands for a call that lasts as long as the run."""


@contextmanager
def in_dtypes(weights: Mapping[Tensor, torch.dtype]) -> Iterator[None]:
    """Parameters and buffers in other dtypes; afterwards the very same tensors are back."""
    before = {tensor: tensor.data for tensor in weights}
    try:
        for tensor, dtype in weights.items():
            tensor.data = tensor.data.to(dtype)
        yield
    finally:
        for tensor, data in before.items():
            tensor.data = data


@contextmanager
def in_float64(
    model: nn.Module,
    watched: Mapping[nn.Module, str] | None = None,
    always: Iterable[Tensor] = (),
    twins: Twins | None = None,
) -> Iterator[WideWeights]:
    """Whatever is computed is computed in float64, also if the model's code casts to a narrower float, or makes one.

    With `watched`, the witness that it gives widens the weights of each of these modules while that is called. Those of
    `always` are wide all the time and, without `watched`, all are. `twins` are told of every operation. Only this
    thread computes in float64: the default dtype of torch, which all threads share, is left alone.
    """
    weights = WideWeights(model, watched or {})
    try:
        weights.widen(_ALL_THE_TIME, weights.narrow if watched is None else always)
        with facts_of(weights.dtypes), _Widened(twins or Twins()):
            yield weights
    finally:
        weights.put_back()


class WideWeights:
    """A witness that has the weights of a module in float64 while it is called, so that all are never wide at once.

    What a call writes to, such as a running mean, stays in float64 for the calls after it.
    """

    def __init__(self, model: nn.Module, watched: Mapping[nn.Module, str]):
        self.watched = watched
        # Under the mode that widens, a narrow value could not be had any more.
        parameters = list(model.parameters())
        self.narrow = {tensor: tensor.data for tensor in (*parameters, *model.buffers())}
        self.counting = {tensor for tensor in parameters if not tensor.is_inference()}
        """The weights whose versions tell what is written to them. The statistics of a batch norm do not count."""
        self.widened: dict[str, dict[Tensor, int | None]] = {}
        """By call, the weights that it has widened and that are still wide, with their versions."""
        self.dtypes = DtypeOfCall(prevailing(self.narrow.values()) or torch.float32)

    def entered(
        self, call: WatchedCall, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        held = list(_held_by(module, self.watched))
        self.dtypes.enter(call, prevailing(self.narrow[tensor] for tensor in held if tensor in self.narrow))
        self.widen(call.name, held)

    def left(self, call: WatchedCall, module: nn.Module, result: Any) -> None:
        self.dtypes.leave(call)
        changed = self.widened[call.name]
        for tensor in [tensor for tensor in changed if not self._is_written(tensor, changed[tensor])]:
            tensor.data = self.narrow[tensor]
            del changed[tensor]

    def widen(self, call: str, tensors: Iterable[Tensor]) -> None:
        changed = self.widened.setdefault(call, {})
        for tensor in tensors:
            if tensor.dtype in _WIDE and tensor in self.narrow:
                tensor.data = self.narrow[tensor].to(_WIDE[tensor.dtype])
                changed[tensor] = tensor._version if tensor in self.counting else None

    def _is_written(self, tensor: Tensor, version: int | None) -> bool:
        if version is not None:
            return tensor._version != version
        return not torch.equal(tensor, self.narrow[tensor].to(tensor.dtype))

    def put_back(self) -> None:
        for changed in self.widened.values():
            for tensor in changed:
                tensor.data = self.narrow[tensor]


def _held_by(module: nn.Module, watched: Mapping[nn.Module, str]) -> Iterator[Tensor]:
    """The weights of a module, and of those inside it whose calls are not watched."""
    for table in (module._parameters, module._buffers):
        yield from (tensor for tensor in table.values() if tensor is not None)
    for child in module._modules.values():
        if child is not None and child not in watched:
            yield from _held_by(child, watched)


class _Widened(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, twins: Twins) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.twins = twins

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        self.twins.computes(func, args, kwargs)
        # What an operation writes to must be the tensor itself and not a widened copy.
        if func._schema.is_mutable:
            return func(*_each(args, _dtype), **_each(kwargs, _dtype))
        result = func(*_each(args, _tensor_or_dtype), **_each(kwargs, _tensor_or_dtype))
        if not isinstance(result, Tensor) or result.dtype not in _WIDE:
            return result
        return _in_float64_itself(func, args, kwargs, result)


def _in_float64_itself(func: Any, args: Any, kwargs: dict[str, Any], narrow: Tensor) -> Tensor:
    """What an operation gives in float64 if its result has the default dtype, since none of its operands is a float."""
    is_random = torch.Tag.nondeterministic_seeded in func.tags
    if is_random or func is torch.ops.aten.lift_fresh.default:
        return narrow.to(_WIDE[narrow.dtype])
    if any(argument.name == "dtype" for argument in func._schema.arguments):
        made: Tensor = func(*args, **{**kwargs, "dtype": _WIDE[narrow.dtype]})
        return made
    return _from_whole_numbers(func, args, kwargs, narrow)


def _from_whole_numbers(func: Any, args: Any, kwargs: dict[str, Any], narrow: Tensor) -> Tensor:
    """Arithmetic on whole numbers whose result is not whole, such as `positions / 3`."""
    try:
        wide = func(*_each(args, _whole_as_float64), **_each(kwargs, _whole_as_float64))
    except (RuntimeError, IndexError, TypeError, NotImplementedError):
        return narrow.to(_WIDE[narrow.dtype])
    is_same = isinstance(wide, Tensor) and wide.dtype == _WIDE[narrow.dtype] and wide.shape == narrow.shape
    if is_same and torch.allclose(wide, narrow.to(wide.dtype), rtol=1e-2, equal_nan=True):
        found: Tensor = wide
        return found
    return narrow.to(_WIDE[narrow.dtype])


def _whole_as_float64(value: Any) -> Any:
    is_whole = isinstance(value, Tensor) and not (value.is_floating_point() or value.is_complex())
    return value.double() if is_whole else value


def _dtype(value: Any) -> Any:
    return _WIDE.get(value, value) if isinstance(value, torch.dtype) else value


def _tensor_or_dtype(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(_WIDE[value.dtype]) if value.dtype in _WIDE else value
    return _dtype(value)


def _each(tree: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)([_each(item, change) for item in tree])
    if isinstance(tree, dict):
        return {key: _each(item, change) for key, item in tree.items()}
    return change(tree)


def prevailing(tensors: Iterable[Tensor]) -> torch.dtype | None:
    """The floating dtype that most elements have; None if nothing floats."""
    elements: dict[torch.dtype, int] = {}
    for tensor in tensors:
        if tensor.is_floating_point():
            elements[tensor.dtype] = elements.get(tensor.dtype, 0) + tensor.numel()
    return max(elements, key=lambda dtype: elements[dtype], default=None)


def is_coarser(dtype: torch.dtype, than: torch.dtype) -> bool:
    if not (dtype.is_floating_point and than.is_floating_point):
        return False
    return torch.finfo(dtype).eps > torch.finfo(than).eps


def like(value: Tensor, other: Tensor) -> Tensor:
    """A copy where `other` is and in its dtype, if both float or both are complex; otherwise it keeps its kind."""
    is_alike = (value.is_floating_point(), value.is_complex()) == (
        other.is_floating_point(),
        other.is_complex(),
    )
    is_number = value.is_floating_point() or value.is_complex()
    dtype = other.dtype if is_number and is_alike else value.dtype
    return value.detach().to(other.device, dtype, copy=True)
