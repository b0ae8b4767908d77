"""The fallback where torch.export fails: hooks see the module calls, and what lies between them is unknown.

In: a model that export cannot follow, and why. Out: a graph in which each module that export trips over is
the calls that its forward was seen to make, joined by `unknown` operations, and the values that those gave.
Every other module is captured as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchport.capture import culprit, export, state
from torchport.capture import graph as g
from torchport.capture.attempt import attempt
from torchport.capture.replay import Replay
from torchport.capture.watching import walk, watch
from torchport.capture.weights import MemoryWeights
from torchport.errors import CaptureError

UNKNOWN = "torchport.unknown.default"
"""Stands for the operations of a module whose graph could not be had."""
_MOST_ATTEMPTS = 12
"""Exports that are tried to find the modules at fault one by one, before all are taken to be."""


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
    order = [call.module for call in walk(calls)]
    blamed: dict[torch.nn.Module, CaptureError] = {}
    latest = error
    for tried in range(_MOST_ATTEMPTS + 2):
        more = [m for m in culprit.find(model, latest, order) if m not in blamed]
        if tried >= _MOST_ATTEMPTS or not more:
            more = culprit.next_level(model, order, blamed, everything=tried >= _MOST_ATTEMPTS)
        if not more:
            break
        blamed |= dict.fromkeys(more, latest)
        replay = Replay(calls, blamed)
        try:
            with state.state_kept(model, runs=False), replay.instead():
                exported = attempt(model, args, kwargs, name=name, wish={}, decompose=decompose)
            return Seen(_tidied(exported, model, blamed), replay.observed)
        except CaptureError as again:
            latest = culprit.plainly(again)
    raise error


def is_unknown(module: g.Module) -> bool:
    return any(node.op == UNKNOWN for node in module.nodes)


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
            error = blamed.get(original) or next(iter(blamed.values()))
            nodes = tuple(_explained(node, module, original, error) for node in module.nodes)
            own = shelf.take(module.path, original)
            modules[key] = replace(module, nodes=nodes, params={**own, **module.params})
    graph = replace(exported.graph, modules=modules, weights=shelf.weights)
    return export.Exported(graph, MemoryWeights(shelf.tensors))


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
        meta = g.TensorMeta(tuple(tensor.shape), g.dtype_name(tensor.dtype))
        kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "buffer"
        same = (n for n, t in self.tensors.items() if not t.is_meta and t.data_ptr() == tensor.data_ptr())
        tied = next((n for n in same if self.weights[n].meta == meta and tensor.numel()), None)
        head = self.weights[tied].tied_to or tied if tied else None
        self.weights[name], self.tensors[name] = g.Weight(meta, kind, head), tensor.detach()
