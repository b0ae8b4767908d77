"""A log of the module calls that a model makes in one run: with what, in which order, and what they return.

In: a model and its inputs. Out: the calls, nested as they were made, and the buffers that the run wrote to. Tensors are
told apart by identity and by how often they were written to, so that what one call returns and the next takes is
recognised as one value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torchport.capture import state
from torchport.capture.torch_internals import pytree

TensorVersion = tuple[int, int]
"""Which tensor it is, and how often it had been written to."""


@dataclass(frozen=True)
class ObservedValue:
    """A leaf of a call's arguments or results; a tensor has a version, and is a copy if the caller had not got it."""

    value: Any
    version: TensorVersion | None


@dataclass
class ObservedCall:
    """One call of a module, as the hooks saw it."""

    name: str
    module: torch.nn.Module
    given: list[ObservedValue]
    given_structure: Any
    calls: list[ObservedCall] = field(default_factory=list)
    """The calls that the module made."""
    result: list[ObservedValue] = field(default_factory=list)
    result_structure: Any = None
    known: set[TensorVersion] = field(default_factory=set)
    """The tensors that the module's forward was given, or got from a call."""


@dataclass(frozen=True)
class CallLog:
    calls: list[ObservedCall]
    """Those of the outermost module."""
    written_buffers: tuple[str, ...]
    """The buffers that the run wrote to or replaced, by name."""


def log_calls(model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallLog:
    """Runs the model once, and leaves it as it was."""
    observer = _Observer(type(model).__name__)
    handles = []
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue
        handles.append(module.register_forward_pre_hook(observer.enter(path), with_kwargs=True, prepend=True))
        handles.append(module.register_forward_hook(observer.leave))
    inputs = state.copied((args, dict(kwargs)))
    before = _buffer_versions(model)
    try:
        with state.state_kept(model):
            model(*inputs[0], **inputs[1])
            after = _buffer_versions(model)
    finally:
        for handle in handles:
            handle.remove()
    written = sorted(name for name in before if after.get(name) != before[name])
    return CallLog(observer.top, tuple(written))


def _buffer_versions(model: torch.nn.Module) -> dict[str, TensorVersion]:
    return {name: _version(buffer) for name, buffer in model.named_buffers()}


def _version(tensor: torch.Tensor) -> TensorVersion:
    return id(tensor), 0 if tensor.is_inference() else tensor._version


class _Observer:
    """The hooks, and the calls that are going on."""

    def __init__(self, root: str):
        self.root = root
        self.top: list[ObservedCall] = []
        self.stack: list[ObservedCall] = []
        self.counts: Counter[str] = Counter()
        self.alive: list[torch.Tensor] = []
        """Keeps tensors from being freed, so that no two have the same identity."""

    def enter(self, path: str) -> Callable[[torch.nn.Module, tuple[Any, ...], dict[str, Any]], None]:
        def hook(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            base = path or self.root
            nth = self.counts[base]
            self.counts[base] += 1
            leaves, structure = pytree.tree_flatten((args, kwargs))
            known = self.stack[-1].known if self.stack else set()
            given = [self._observed(leaf, known) for leaf in leaves]
            call = ObservedCall(f"{base}#{nth}" if nth else base, module, given, structure)
            call.known = {leaf.version for leaf in given if leaf.version is not None}
            self.stack.append(call)

        return hook

    def leave(self, module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        call = self.stack.pop()
        leaves, call.result_structure = pytree.tree_flatten(output)
        call.result = [self._observed(leaf, set()) for leaf in leaves]
        if self.stack:
            self.stack[-1].known |= {leaf.version for leaf in call.result if leaf.version is not None}
            self.stack[-1].calls.append(call)
        else:
            self.top.append(call)

    def _observed(self, value: Any, known: set[TensorVersion]) -> ObservedValue:
        if not isinstance(value, torch.Tensor):
            return ObservedValue(value, None)
        self.alive.append(value)
        version = _version(value)
        return ObservedValue(value.detach() if version in known else value.detach().clone(), version)


def walk(calls: Sequence[ObservedCall]) -> Iterator[ObservedCall]:
    """All calls, each before those that it made."""
    for call in calls:
        yield call
        yield from walk(call.calls)
