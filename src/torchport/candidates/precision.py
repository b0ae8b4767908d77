"""The same model in another dtype: in float64 for the truth, or in that of a coarser candidate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

NARROW = (torch.float16, torch.bfloat16, torch.float32)


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
def in_float64(names: Mapping[nn.Module, str], always: Iterable[Tensor] = ()) -> Iterator[WideWeights]:
    """Whatever is computed is computed in float64, also what the model's code casts to a narrower float.

    The witness that it gives widens the weights of each module while that is called. Those of `always` are wide all
    the time.
    """
    default = torch.get_default_dtype()
    weights = WideWeights(names)
    try:
        weights.widen(always)
        torch.set_default_dtype(torch.float64)
        with _Widened():  # type: ignore[no-untyped-call]
            yield weights
    finally:
        torch.set_default_dtype(default)
        weights.put_back()


class WideWeights:
    """A witness that has the weights of a module in float64 while it is called, so that all are never wide at once."""

    def __init__(self, names: Mapping[nn.Module, str]):
        self.names = names
        # Under the mode that widens, a narrow value could not be had any more.
        self.narrow = {tensor: tensor.data for module in names for tensor in _held_by(module, names)}
        self.widened: list[list[Tensor]] = []
        """For each call that is going on, the weights that it has widened."""

    def entered(self, call: Any, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.widen(_held_by(module, self.names))

    def left(self, call: Any, module: nn.Module, result: Any) -> None:
        self._narrow_again(self.widened.pop())

    def widen(self, tensors: Iterable[Tensor]) -> None:
        self.widened.append(changed := [])
        for tensor in tensors:
            if tensor.dtype in NARROW and tensor in self.narrow:
                changed.append(tensor)
                tensor.data = self.narrow[tensor].double()

    def put_back(self) -> None:
        while self.widened:
            self._narrow_again(self.widened.pop())

    def _narrow_again(self, changed: list[Tensor]) -> None:
        for tensor in changed:
            tensor.data = self.narrow[tensor]


def _held_by(module: nn.Module, watched: Mapping[nn.Module, str]) -> Iterator[Tensor]:
    """The weights of a module, and of those inside it whose calls are not watched."""
    yield from module.parameters(recurse=False)
    yield from module.buffers(recurse=False)
    for child in module.children():
        if child not in watched:
            yield from _held_by(child, watched)


class _Widened(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        # What an operation writes to must be the tensor itself and not a widened copy.
        widen = _dtype if func._schema.is_mutable else _tensor_or_dtype
        return func(*_each(args, widen), **_each(kwargs or {}, widen))


def _dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in NARROW else value


def _tensor_or_dtype(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.double() if value.dtype in NARROW else value
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
