"""What the culprit would compute if one of its operations, or its weights, were others.

In: a suspect, and the result that an operation would have, or other weights. Out: the value that the culprit then
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
from torchport.explain.suspect import Suspect

_NAMELESS_INPUT = re.compile(r"input_\d+")


def bind(suspect: Suspect) -> dict[str, BoundOperation]:
    """Every operation of the suspect with its operands, by the name of its node, in the order of the run."""
    run = NotedRun(suspect.slice.graph, suspect.capture.weights, suspect.plan)
    run.run(suspect.inputs)
    names = _names(suspect)
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


def _names(suspect: Suspect) -> dict[str, str]:
    """What the user's code calls each value of the slice; a trace key for an input that it gives no name."""
    root = suspect.slice.graph.root
    names = {node.name: node.hint or node.name for node in root.nodes} | root.params
    for item, key in zip(root.inputs, suspect.slice.inputs, strict=True):
        own = item.hint or item.name
        names[item.name] = key if _NAMELESS_INPUT.fullmatch(own) else own
    return names


def predict(
    suspect: Suspect,
    *,
    results: Mapping[str, Any] | None = None,
    weights: Mapping[str, torch.Tensor] | None = None,
) -> torch.Tensor | None:
    """The value that the suspect computes at its key, or None if the rest cannot compute with that.

    `results` has other results for some operations, by the names of their nodes; `weights` has other weights.
    """
    run = NotedRun(
        suspect.slice.graph, {**suspect.capture.weights, **(weights or {})}, suspect.plan, replaced=results
    )
    try:
        run.run(suspect.inputs)
    except CANNOT_COMPUTE:
        return None
    return run.values.get(suspect.here(suspect.key))
