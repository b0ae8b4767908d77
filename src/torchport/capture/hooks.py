"""The fallback where torch.export fails: module hooks see the calls and their tensors, but no graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torchport.capture import graph as g
from torchport.capture.plan import Call, Plan

UNKNOWN = "torchport.unknown.default"
"""Stands for the operations of a module whose graph could not be had."""


@dataclass
class Seen:
    graph: g.Graph
    plan: Plan
    weights: dict[str, torch.Tensor]
    golden: dict[str, torch.Tensor] = field(default_factory=dict)


def watch(model: torch.nn.Module, args: tuple, kwargs: Mapping[str, Any], name: str) -> Seen:
    """Runs the model once and records every module call."""
    watcher = _Watcher(model)
    handles = []
    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(watcher.enter(path), with_kwargs=True))
        handles.append(module.register_forward_hook(watcher.leave(path)))
    try:
        model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    graph = g.Graph(
        name=name,
        modules=watcher.modules,
        weights={n: g.Weight(_meta(t), "parameter") for n, t in weights.items()},
        symbols=(),
        output_names=tuple(f"[{i}]" for i in range(len(watcher.modules[""].outputs))),
    )
    return Seen(graph, watcher.plan, {n: t.detach() for n, t in weights.items()}, watcher.golden)


class _Watcher:
    def __init__(self, model: torch.nn.Module):
        self.model = model
        self.plan = Plan(root=type(model).__name__)
        self.modules: dict[str, g.Module] = {}
        self.golden: dict[str, torch.Tensor] = {}
        self.counts: Counter[str] = Counter()
        self.stack: list[tuple[str, list[torch.Tensor]]] = []

    def enter(self, path: str):
        def hook(module: torch.nn.Module, args: tuple, kwargs: dict) -> None:
            base = path or self.plan.root
            call = base if not self.counts[base] else f"{base}#{self.counts[base]}"
            self.counts[base] += 1
            inputs = _tensors((args, kwargs))
            for i, tensor in enumerate(inputs):
                self.golden[f"{call}<{i}"] = tensor.detach().clone()
            self.stack.append((call, inputs))
            self.plan.events.append(("enter", call))

        return hook

    def leave(self, path: str):
        def hook(module: torch.nn.Module, args: tuple, output: Any) -> None:
            call, inputs = self.stack.pop()
            outputs = _tensors(output)
            keys = [call if i == 0 else f"{call}:{i}" for i in range(len(outputs))]
            for key, tensor in zip(keys, outputs, strict=True):
                self.golden[key] = tensor.detach().clone()
            kind = f"{type(module).__module__}.{type(module).__qualname__}"
            self.plan.calls[call] = Call(
                name=call,
                path=path,
                type=kind,
                inputs=[f"{call}<{i}" for i in range(len(inputs))],
                outputs=keys,
                source=None,
                parent=self.stack[-1][0] if self.stack else None,
                module=path,
            )
            self.plan.events.append(("exit", call))
            self.modules.setdefault(path, _module(path, kind, inputs, outputs))

        return hook


def _module(path: str, kind: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> g.Module:
    given = tuple(g.Input(f"input_{i}", _meta(t)) for i, t in enumerate(inputs))
    node = g.Node(
        name="unknown",
        op=UNKNOWN,
        args=tuple(g.Ref(i.name) for i in given),
        kwargs={},
        outputs=tuple(_meta(t) for t in outputs),
    )
    return g.Module(path, kind, given, (node,), tuple(g.Ref("unknown", i) for i in range(len(outputs))))


def _meta(tensor: torch.Tensor) -> g.TensorMeta:
    return g.TensorMeta(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
