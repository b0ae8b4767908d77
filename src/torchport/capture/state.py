"""Leaves a model as it was: what a run changes of it is put back, and what torch prints meanwhile is held back."""

from __future__ import annotations

import io
import logging
import threading
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from torchport.capture import operations
from torchport.capture.held_values import HeldValues
from torchport.capture.random_numbers import random_numbers_kept
from torchport.capture.torch_internals import (
    OpOverload,
    TorchDispatchMode,
    pytree,
    storage_id,
    versions_kept,
    without_modes,
)

_TURN = threading.RLock()
"""Whose turn it is to change what the whole process shares."""
_COPIED_BYTES = 64 * 2**20
"""How many bytes of buffers are copied before a run; larger buffers are copied if the run writes to them."""
_TABLES = ("_parameters", "_buffers", "_modules")
"""Dicts of a module whose contents are put back, rather than the dicts themselves, which others may hold."""


@contextmanager
def as_it_was(model: torch.nn.Module) -> Iterator[None]:
    """Within, the model is in eval mode and takes the plain attention path; afterwards it is as before.

    That includes modes, attributes, buffers and the random state of torch, Python and numpy.
    """
    with alone(), random_numbers_kept(model), state_kept(model, runs=False):
        model.eval()
        yield


@contextmanager
def alone() -> Iterator[None]:
    """Within, no other thread is: it waits at its own `alone`. Attention takes the plain path.

    Models are changed while they are watched, and some of torch's settings are the whole process's.
    """
    with _TURN:
        fast_path = torch.backends.mha.get_fastpath_enabled()
        try:
            # The fast path of attention leaves out the modules inside.
            torch.backends.mha.set_fastpath_enabled(False)
            yield
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)


@contextmanager
def state_kept(model: torch.nn.Module, *, runs: bool = True) -> Iterator[None]:
    """Puts back buffers, by name and by value, and the attributes of every module with what these hold.

    Parameters of a model in training mode, which a forward pass may write to, are put back, too. To autograd nothing
    was written, so that a backward pass that was pending before can be run. Without `runs`, the model is only traced
    within: then no operation writes to its buffers, and large ones need no guard, which would be in torch.export's way.
    """
    snapshots = [(module, _Snapshot(module)) for module in model.modules()]
    held = HeldValues()
    for module, _ in snapshots:
        held.look_into(module)
    buffers = {
        id(buffer): buffer
        for module, _ in snapshots
        for buffer in module._buffers.values()
        if buffer is not None
    }
    written = [*buffers.values(), *(model.parameters() if is_training(model) else ()), *held.tensors]
    small, large = by_size([tensor for tensor in written if not tensor.is_meta and not is_lazy(tensor)])
    with without_modes():
        copies = [(tensor, tensor.detach().clone()) for tensor in small]
    parameters: set[int] = {id(parameter) for parameter in model.parameters()} if large else set()
    guarded = [tensor for tensor in large if id(tensor) not in parameters]
    guard = CopyBeforeWrite(guarded) if runs and guarded else None
    versions = versions_kept((*small, *guarded))
    try:
        with guard or nullcontext():
            yield
    finally:
        for module, snapshot in snapshots:
            snapshot.put_back(module)
        held.put_back()
        with versions, without_modes(), torch.no_grad():
            for tensor, value in copies + (guard.copies if guard else []):
                if tensor.dtype != value.dtype or not torch.equal(tensor, value):
                    tensor.copy_(value)


def is_training(model: torch.nn.Module) -> bool:
    """Whether a model is in training mode; a frozen one has no modes."""
    return bool(getattr(model, "training", False))


def by_size(buffers: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The buffers that are small enough to be copied, all together, and those that are not."""
    small: list[torch.Tensor] = []
    large: list[torch.Tensor] = []
    total = 0
    for buffer in sorted(buffers, key=lambda buffer: buffer.nbytes):
        total += buffer.nbytes
        (small if total <= _COPIED_BYTES else large).append(buffer)
    return small, large


class CopyBeforeWrite(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Copies a tensor when an operation is about to write to it, so that what is only read is never copied.

    What is written behind torch's back, such as through a NumPy array, is not noticed.
    """

    supports_higher_order_operators = True

    def __init__(self, tensors: Iterable[torch.Tensor]):
        super().__init__()  # type: ignore[no-untyped-call]
        self.copies: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._unwritten: dict[int, list[torch.Tensor]] = defaultdict(list)
        for tensor in tensors:
            self._unwritten[storage_id(tensor)].append(tensor)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        for leaf in pytree.tree_leaves(_written(func, args, kwargs)):
            if isinstance(leaf, torch.Tensor):
                for tensor in self._unwritten.pop(storage_id(leaf), ()):
                    self.copies.append((tensor, tensor.detach().clone()))
        return func(*args, **kwargs)


def _written(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The arguments that an operation may write to: all, if it is one that runs functions, such as torch.cond."""
    if not isinstance(operation, OpOverload):
        return args, kwargs
    name = str(operation)
    if not operations.is_mutating(name):
        return ()
    given = operations.given(name, args, kwargs)
    return [given.get(argument.name) for argument in operations.arguments(name) if argument.is_written]


class _Snapshot:
    """The attributes of a module, and the contents of its tables. Models have many modules, so it is slim."""

    __slots__ = ("attributes", "contents")

    def __init__(self, module: torch.nn.Module) -> None:
        self.attributes = dict(vars(module))
        tables = [self.attributes.get(name) for name in _TABLES]
        self.contents = [(table, dict(table)) for table in tables if isinstance(table, dict)]

    def put_back(self, module: torch.nn.Module) -> None:
        own = vars(module)
        own.clear()
        own.update(self.attributes)
        for table, content in self.contents:
            table.clear()
            table.update(content)


def copied(tree: Any) -> Any:
    """A copy of the inputs in memory of its own, so that a forward that writes to its inputs does no harm."""
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), tree)


@contextmanager
def quiet() -> Iterator[None]:
    """Within, nothing is logged or printed: torch.export repeats at length what is in the error that it raises."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
