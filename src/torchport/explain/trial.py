"""Trying things out in a scene: what would the culprit compute, were one of its operations another?

In: a scene and the value that an operation would have, or other weights. Out: what then comes out at the key at which
the culprit showed, to be set against what the port computed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture.interpret import Interpreter
from torchport.explain.scene import Scene


@dataclass(frozen=True)
class Bound:
    """An operation with its operands, by the names that its schema has. Call it to compute it otherwise."""

    node: g.Node
    overload: Any
    args: dict[str, Any]
    result: Any
    names: dict[str, str]
    """What the user's code, or else the trace, calls a value of the graph."""

    def __call__(self, **changes: Any) -> Any:
        return self.overload(**{**self.args, **changes})

    def __getitem__(self, name: str) -> Any:
        return self.args[name]

    def get(self, name: str) -> Any:
        return self.args.get(name)

    def called(self, name: str) -> str:
        """An operand as the user's code calls it, where it does."""
        names = [argument.name for argument in self.overload._schema.arguments]
        refs = {**dict(zip(names, self.node.args, strict=False)), **self.node.kwargs}
        ref = refs.get(name)
        known = self.names.get(ref.name, ref.name) if isinstance(ref, g.Ref) else name
        return name if known == name else f"{name} ({known})"

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: value for name, value in self.args.items() if isinstance(value, torch.Tensor)}


class _Machine(Interpreter):
    """Notes every operation, and gives some of them other values."""

    def __init__(self, scene: Scene, weights: Mapping[str, torch.Tensor], values: Mapping[str, Any]):
        self.seen: dict[str, torch.Tensor] = {}
        self.bound: dict[str, Bound] = {}
        self.replaced = values
        root = scene.slice.graph.root
        self.names = {node.name: node.hint or node.name for node in root.nodes}
        self.names |= root.params
        for item, key in zip(root.inputs, scene.slice.inputs, strict=True):
            named = item.hint or item.name
            self.names[item.name] = key if re.fullmatch(r"input_\d+", named) else named

        def note(key: str, value: torch.Tensor) -> torch.Tensor:
            self.seen[key] = value
            return value

        super().__init__(scene.slice.graph, weights, scene.plan, note)

    def apply(self, node: g.Node, args: tuple, kwargs: dict[str, Any]) -> Any:
        if node.name in self.replaced:
            return self.replaced[node.name]
        result = super().apply(node, args, kwargs)
        overload = self.overload(node.op)
        self.bound[node.name] = Bound(node, overload, _by_name(overload, args, kwargs), result, self.names)
        return result


def bind(scene: Scene) -> dict[str, Bound]:
    """Every operation of the scene with its operands."""
    machine = _Machine(scene, scene.capture.weights, {})
    machine.run(scene.inputs)
    return machine.bound


def predict(
    scene: Scene,
    *,
    values: Mapping[str, Any] | None = None,
    weights: Mapping[str, torch.Tensor] | None = None,
) -> torch.Tensor | None:
    """What comes out at the scene's key; None where the rest cannot work with that."""
    machine = _Machine(scene, {**scene.capture.weights, **(weights or {})}, values or {})
    try:
        machine.run(scene.inputs)
    except (RuntimeError, IndexError, ValueError, TypeError):
        return None
    return machine.seen.get(scene.here(scene.key))


def _by_name(overload: Any, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments by name, with the defaults of those that were left out."""
    names = [argument.name for argument in overload._schema.arguments]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    for argument in overload._schema.arguments:
        if argument.name not in given:
            given[argument.name] = argument.default_value
    return given
