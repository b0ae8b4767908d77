"""The fallback if torch.export fails: hooks see the module calls, and what lies between them is unknown.

In: a model that export cannot follow, and why. Out: a graph in which each module that export fails on is the calls
that its forward was seen to make, joined by `unknown` operations; and the values that those returned. Every other
module is captured as usual.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from torchport.capture import export, export_fault, state
from torchport.capture import graph as g
from torchport.capture.attempt import attempt
from torchport.capture.call_log import log_calls, walk
from torchport.capture.exported import Exported
from torchport.capture.replay import Replay
from torchport.capture.weights import MemoryWeights, described
from torchport.errors import CaptureError

UNKNOWN = g.UNKNOWN
_MOST_ATTEMPTS = 12
"""Exports that are tried to find the modules at fault one by one, before all modules are blamed."""


@dataclass(frozen=True)
class HookedCapture:
    """A graph with unknown operations, and the values that each of those returned, by its label."""

    exported: Exported
    observed: dict[str, list[torch.Tensor]]


def capture(
    model: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    name: str,
    error: CaptureError,
    decompose: export.Decompose | None = None,
) -> HookedCapture:
    """Captures what can be: `error` is why the whole could not. Sizes are those of the example inputs."""
    log = log_calls(model, args, kwargs)
    order = [call.module for call in walk(log.calls)]
    blamed: dict[torch.nn.Module, CaptureError] = {}
    latest = error
    for tried in range(_MOST_ATTEMPTS + 2):
        more = [m for m in export_fault.modules_at_fault(model, latest, order) if m not in blamed]
        if tried >= _MOST_ATTEMPTS:
            more = export_fault.not_blamed(order, blamed)
        elif not more:
            more = export_fault.outermost(model, order, blamed)
        if not more:
            break
        blamed |= dict.fromkeys(more, latest)
        replay = Replay(log.calls, blamed)
        try:
            with state.state_kept(model, runs=False), replay.instead():
                exported = attempt(model, args, kwargs, name=name, wish={}, decompose=decompose)
        except CaptureError as again:
            latest = export_fault.in_plain_words(again)
            continue
        writes = tuple(sorted({*exported.writes, *log.written_buffers}))
        return HookedCapture(_tidied(replace(exported, writes=writes), model, blamed), replay.observed)
    raise error


def is_unknown(module: g.Module) -> bool:
    return any(node.op == UNKNOWN for node in module.nodes)


def _tidied(
    exported: Exported, model: torch.nn.Module, blamed: Mapping[torch.nn.Module, CaptureError]
) -> Exported:
    """Unknown operations with their reason and the user's line; and the weights that they may read."""
    originals = dict(model.named_modules(remove_duplicate=False))
    modules = dict(exported.graph.modules)
    tensors = dict(exported.weights)
    kinds = {name: weight.kind for name, weight in exported.graph.weights.items()}
    for key, module in exported.graph.modules.items():
        if is_unknown(module):
            original = originals[module.path]
            error = blamed.get(original) or next(iter(blamed.values()))
            nodes = tuple(_explained(node, module, original, error) for node in module.nodes)
            readable = {**dict(original.named_parameters()), **dict(original.named_buffers())}
            prefix = f"{module.path}." if module.path else ""
            for local, tensor in readable.items():
                tensors.setdefault(prefix + local, tensor.detach())
                kinds.setdefault(prefix + local, _kind(tensor))
            own = {f"w_{local}": prefix + local for local in readable if "." not in local}
            modules[key] = replace(module, nodes=nodes, params={**own, **module.params})
    graph = replace(exported.graph, modules=modules, weights=described(tensors, kinds))
    return replace(exported, graph=graph, weights=MemoryWeights(tensors))


def _explained(node: g.Node, module: g.Module, original: torch.nn.Module, error: CaptureError) -> g.Node:
    if node.op != UNKNOWN:
        return replace(node, source=module.source, hint=None)
    values, label, *_ = node.args
    return replace(
        node,
        args=(values,),
        kwargs={"label": label, "reason": error.message},
        source=export_fault.line_at_fault(error, original),
        hint=None,
    )


def _kind(tensor: torch.Tensor) -> str:
    return "parameter" if isinstance(tensor, torch.nn.Parameter) else "buffer"
