"""What the culprit would compute if one of its operations, or its weights, were others.

In: a scene, and the result that an operation would have, or other weights. Out: the value that the culprit then
computes at the key at which it diverged, to be compared with what the port computed there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from torchport.capture import operations
from torchport.explain.bound_operation import BoundOperation
from torchport.explain.noted_run import CANNOT_COMPUTE, NotedRun
from torchport.explain.scene import Scene

_NAMELESS_INPUT = re.compile(r"input_\d+")


def bind(scene: Scene) -> dict[str, BoundOperation]:
    """Every operation of the scene with its operands, by the name of its node, in the order of the run."""
    run = NotedRun(scene.slice.graph, scene.capture.weights, scene.plan)
    run.run(scene.inputs)
    names = _names(scene)
    return {
        name: BoundOperation(
            node=applied.node,
            overload=run.overload(applied.node.op),
            arguments=operations.bind(applied.node.op, applied.args, applied.kwargs),
            result=applied.result,
            names=names,
        )
        for name, applied in run.applied.items()
    }


def _names(scene: Scene) -> dict[str, str]:
    """What the user's code calls each value of the slice; a trace key for an input that it gives no name."""
    root = scene.slice.graph.root
    names = {node.name: node.hint or node.name for node in root.nodes} | root.params
    for item, key in zip(root.inputs, scene.slice.inputs, strict=True):
        own = item.hint or item.name
        names[item.name] = key if _NAMELESS_INPUT.fullmatch(own) else own
    return names


def predict(
    scene: Scene,
    *,
    results: Mapping[str, Any] | None = None,
    weights: Mapping[str, torch.Tensor] | None = None,
) -> torch.Tensor | None:
    """The value that the culprit computes at the scene's key, or None if the rest cannot compute with that.

    `results` has other results for some operations, by the names of their nodes; `weights` has other weights.
    """
    run = NotedRun(
        scene.slice.graph, {**scene.capture.weights, **(weights or {})}, scene.plan, replaced=results
    )
    try:
        run.run(scene.inputs)
    except CANNOT_COMPUTE:
        return None
    return run.values.get(scene.here(scene.key))
