"""The fallback where torch.export fails: hooks see the module calls, and what lies between them is unknown.

In: a model that export cannot follow, and why. Out: a graph in which each module that export trips over is
the calls that its forward was seen to make, joined by `unknown` operations, and the values that those gave.
Every other module is captured as usual.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torchport.capture import culprit, export, state
from torchport.capture import graph as g
from torchport.capture.manifest import must_be_typed
from torchport.errors import CaptureError

UNKNOWN = "torchport.unknown.default"
"""Stands for the operations of a module whose graph could not be had."""
_MOST_ATTEMPTS = 12
"""Exports that are tried to find the modules at fault one by one, before all are taken to be."""

_library = torch.library.Library("torchport", "FRAGMENT")
_library.define(
    "unknown(Tensor[] inputs, str label, int[] sizes, int[] ranks, ScalarType[] dtypes, Device device)"
    " -> Tensor[]"
)


@torch.library.register_fake("torchport::unknown", lib=_library)
def _unknown(
    inputs: list, label: str, sizes: list, ranks: list, dtypes: list, device: torch.device
) -> list[torch.Tensor]:
    found, start = [], 0
    for rank, dtype in zip(ranks, dtypes, strict=True):
        found.append(torch.empty(sizes[start : start + rank], dtype=dtype, device=device))
        start += rank
    return found


Mark = tuple[int, int]
"""Which tensor it is, and how often it had been written to."""


@dataclass(frozen=True)
class _Leaf:
    """A leaf of a call's inputs or outputs; a tensor has a mark, and is a copy where it may be needed."""

    value: Any
    mark: Mark | None


@dataclass
class _Call:
    """One call of a module, as the hooks saw it."""

    name: str
    module: torch.nn.Module
    given: list[_Leaf]
    given_structure: Any
    calls: list[_Call] = field(default_factory=list)
    result: list[_Leaf] = field(default_factory=list)
    result_structure: Any = None
    known: set[Mark] = field(default_factory=set)
    """The tensors that its forward was given or got from a call."""


@dataclass(frozen=True)
class Seen:
    """A graph with unknown operations, and what each of those gave, by its label."""

    exported: export.Exported
    observed: dict[str, list[torch.Tensor]]


def capture(
    model: torch.nn.Module,
    args: tuple,
    kwargs: Mapping[str, Any],
    *,
    name: str,
    error: CaptureError,
    decompose: export.Decompose | None = None,
) -> Seen:
    """Captures what can be: `error` is why the whole could not. Sizes are those of the example inputs."""
    calls = watch(model, args, kwargs)
    order = [call.module for call in _walk(calls)]
    blamed: dict[torch.nn.Module, CaptureError] = {}
    latest = error
    for attempt in range(_MOST_ATTEMPTS + 2):
        more = [m for m in culprit.find(model, latest, order) if m not in blamed]
        if attempt >= _MOST_ATTEMPTS or not more:
            more = culprit.next_level(model, order, blamed, everything=attempt >= _MOST_ATTEMPTS)
        if not more:
            break
        blamed |= dict.fromkeys(more, latest)
        replay = _Replay(calls, blamed)
        try:
            with state.state_kept(model), replay.instead(), state.quiet():
                inputs = state.copied((args, dict(kwargs)))
                exported = export.export(model, *inputs, name=name, wish={}, decompose=decompose)
            must_be_typed(exported.graph)
            return Seen(_tidied(exported, model, blamed), replay.observed)
        except CaptureError as again:
            latest = again
    raise error


def is_unknown(module: g.Module) -> bool:
    return any(node.op == UNKNOWN for node in module.nodes)


# watching


def watch(model: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> list[_Call]:
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
        self.top: list[_Call] = []
        self.stack: list[_Call] = []
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
            call = _Call(f"{base}#{nth}" if nth else base, module, given, structure)
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

    def _leaf(self, value: Any, known: set[Mark]) -> _Leaf:
        if not isinstance(value, torch.Tensor):
            return _Leaf(value, None)
        self.alive.append(value)
        mark = (id(value), value._version)
        return _Leaf(value.detach() if mark in known else value.detach().clone(), mark)


def _walk(calls: Sequence[_Call]) -> Iterator[_Call]:
    for call in calls:
        yield call
        yield from _walk(call.calls)


# replaying


class _Replay:
    """Forwards that repeat the calls which a module was seen to make; what joins these is `unknown`."""

    def __init__(self, calls: Sequence[_Call], blamed: Mapping[torch.nn.Module, CaptureError]):
        self.calls: dict[torch.nn.Module, list[_Call]] = {}
        for call in _walk(calls):
            if call.module in blamed:
                self.calls.setdefault(call.module, []).append(call)
        self.turns: Counter[torch.nn.Module] = Counter()
        self.observed: dict[str, list[torch.Tensor]] = {}

    @contextmanager
    def instead(self) -> Iterator[None]:
        """Within, the modules at fault run the replay in place of their forward."""
        for module in self.calls:
            vars(module)["forward"] = self._forward(module)
        yield  # The caller puts the modules' attributes back.

    def _forward(self, module: torch.nn.Module) -> Callable:
        @functools.wraps(module.forward)
        def forward(*args: Any, **kwargs: Any) -> Any:
            seen = self.calls[module]
            call = seen[self.turns[module] % len(seen)]
            self.turns[module] += 1
            return self._repeat(call, args, kwargs)

        return forward

    def _repeat(self, call: _Call, args: tuple, kwargs: dict) -> Any:
        live: dict[Mark, Any] = {}
        _note(live, call.given, pytree.tree_leaves((args, kwargs)))
        inputs = [value for value in live.values() if isinstance(value, torch.Tensor)]
        fresh: list[torch.Tensor] = []
        """What calls have given since the last unknown operation."""
        count = 0

        def fill(leaves: Sequence[_Leaf], wanted: Sequence[_Leaf]) -> list[Any]:
            nonlocal count
            if wanted:
                found = self._observe(f"{call.name}/{count}", [*inputs, *fresh], wanted)
                _note(live, wanted, found)
                fresh.clear()
                count += 1
            return [leaf.value if leaf.mark is None else live[leaf.mark] for leaf in leaves]

        for child in call.calls:
            missing = {leaf.mark: leaf for leaf in child.given if leaf.mark and leaf.mark not in live}
            values = fill(child.given, list(missing.values()))
            child_args, child_kwargs = pytree.tree_unflatten(values, child.given_structure)
            result = pytree.tree_leaves(child.module(*child_args, **child_kwargs))
            _note(live, child.result, result)
            fresh += [value for value in result if isinstance(value, torch.Tensor)]
        everything = {leaf.mark: leaf for leaf in call.result if leaf.mark is not None}
        return pytree.tree_unflatten(fill(call.result, list(everything.values())), call.result_structure)

    def _observe(self, label: str, inputs: list[torch.Tensor], wanted: Sequence[_Leaf]) -> list[torch.Tensor]:
        tensors = [leaf.value for leaf in wanted]
        self.observed[label] = tensors
        return torch.ops.torchport.unknown.default(
            inputs,
            label,
            [size for tensor in tensors for size in tensor.shape],
            [tensor.ndim for tensor in tensors],
            [tensor.dtype for tensor in tensors],
            tensors[0].device,
        )


def _note(live: dict[Mark, Any], leaves: Sequence[_Leaf], values: Sequence[Any]) -> None:
    for leaf, value in zip(leaves, values, strict=True):
        if leaf.mark is not None:
            live[leaf.mark] = value


# what the graph says of it


def _tidied(
    exported: export.Exported, model: torch.nn.Module, blamed: Mapping[torch.nn.Module, CaptureError]
) -> export.Exported:
    """Unknown operations with their reason and the user's line; and the weights that they may read."""
    originals = dict(model.named_modules(remove_duplicate=False))
    modules = dict(exported.graph.modules)
    shelf = _Shelf(dict(exported.graph.weights), dict(exported.weights))
    for key, module in exported.graph.modules.items():
        if is_unknown(module):
            original = originals[module.path]
            nodes = tuple(_explained(node, module, original, blamed[original]) for node in module.nodes)
            own = shelf.take(module.path, original)
            modules[key] = replace(module, nodes=nodes, params={**own, **module.params})
    graph = replace(exported.graph, modules=modules, weights=shelf.weights)
    return export.Exported(graph, shelf.tensors)


def _explained(node: g.Node, module: g.Module, original: torch.nn.Module, error: CaptureError) -> g.Node:
    if node.op != UNKNOWN:
        return replace(node, source=module.source, hint=None)
    values, label, *_ = node.args
    return replace(
        node,
        args=(values,),
        kwargs={"label": label, "reason": error.message},
        source=culprit.place(error, original),
        hint=None,
    )


@dataclass
class _Shelf:
    """The weights of a graph, to which are added those that unknown operations may read."""

    weights: dict[str, g.Weight]
    tensors: dict[str, torch.Tensor]

    def take(self, path: str, module: torch.nn.Module) -> dict[str, str]:
        """Adds a module's tensors, those of children that were not called too; gives its own, as params."""
        own = {}
        for named in (module.named_parameters(), module.named_buffers()):
            for local, tensor in named:
                name = f"{path}.{local}" if path else local
                if name not in self.weights:
                    self._add(name, tensor)
                if "." not in local:
                    own[f"w_{local}"] = name
        return own

    def _add(self, name: str, tensor: torch.Tensor) -> None:
        meta = g.TensorMeta(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "buffer"
        same = (n for n, t in self.tensors.items() if not t.is_meta and t.data_ptr() == tensor.data_ptr())
        tied = next((n for n in same if self.weights[n].meta == meta and tensor.numel()), None)
        head = self.weights[tied].tied_to or tied if tied else None
        self.weights[name], self.tensors[name] = g.Weight(meta, kind, head), tensor.detach()
