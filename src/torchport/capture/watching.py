"""Watching a model run: which modules it calls, with what, and what they give back.

Tensors are told apart by identity and by how often they were written to, so that what one call gives and the
next takes is seen to be one value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from torchport.capture import state
from torchport.capture.torch_internals import pytree

Mark = tuple[int, int]
"""Which tensor it is, and how often it had been written to."""


@dataclass(frozen=True)
class Leaf:
    """A leaf of a call's inputs or outputs; a tensor has a mark, and is a copy where it may be needed."""

    value: Any
    mark: Mark | None


@dataclass
class Call:
    """One call of a module, as the hooks saw it."""

    name: str
    module: torch.nn.Module
    given: list[Leaf]
    given_structure: Any
    calls: list[Call] = field(default_factory=list)
    result: list[Leaf] = field(default_factory=list)
    result_structure: Any = None
    known: set[Mark] = field(default_factory=set)
    """The tensors that its forward was given or got from a call."""


def watch(model: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> list[Call]:
    """Runs the model once; gives the calls of the outermost module."""
    watcher = _Watcher(type(model).__name__)
    handles = []
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue
        handles.append(module.register_forward_pre_hook(watcher.enter(path), with_kwargs=True, prepend=True))
        handles.append(module.register_forward_hook(watcher.leave))
    inputs = state.copied((args, dict(kwargs)))
    try:
        with state.state_kept(model):
            model(*inputs[0], **inputs[1])
    finally:
        for handle in handles:
            handle.remove()
    return watcher.top


class _Watcher:
    def __init__(self, root: str):
        self.root = root
        self.top: list[Call] = []
        self.stack: list[Call] = []
        self.counts: Counter[str] = Counter()
        self.alive: list[torch.Tensor] = []
        """Keeps tensors from being freed, so that no two have the same identity."""

    def enter(self, path: str) -> Callable:
        def hook(module: torch.nn.Module, args: tuple, kwargs: dict) -> None:
            base = path or self.root
            nth = self.counts[base]
            self.counts[base] += 1
            leaves, structure = pytree.tree_flatten((args, kwargs))
            known = self.stack[-1].known if self.stack else set()
            given = [self._leaf(leaf, known) for leaf in leaves]
            call = Call(f"{base}#{nth}" if nth else base, module, given, structure)
            call.known = {leaf.mark for leaf in given if leaf.mark is not None}
            self.stack.append(call)

        return hook

    def leave(self, module: torch.nn.Module, args: tuple, output: Any) -> None:
        call = self.stack.pop()
        leaves, call.result_structure = pytree.tree_flatten(output)
        call.result = [self._leaf(leaf, set()) for leaf in leaves]
        if self.stack:
            self.stack[-1].known |= {leaf.mark for leaf in call.result if leaf.mark is not None}
            self.stack[-1].calls.append(call)
        else:
            self.top.append(call)

    def _leaf(self, value: Any, known: set[Mark]) -> Leaf:
        if not isinstance(value, torch.Tensor):
            return Leaf(value, None)
        self.alive.append(value)
        mark = (id(value), value._version)
        return Leaf(value.detach() if mark in known else value.detach().clone(), mark)


def walk(calls: Sequence[Call]) -> Iterator[Call]:
    for call in calls:
        yield call
        yield from walk(call.calls)
