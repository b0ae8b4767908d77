"""The culprit again, by itself, with every operation watched: so that the answer is an operation and a line.

What a user changed in the candidate's source is changed in the slice as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from torchport.capture.graph import Node, Ref
from torchport.errors import TorchportError
from torchport.explain.bench import Attempt, Bench, Trial
from torchport.explain.suspect import Suspect
from torchport.parity.result import Operation
from torchport.runs.report import Report
from torchport.trace.plan import operation_of
from torchport.trace.reading import Trace

_SAME = 0.05
"""The share of an error that may be missing where two errors are called the same."""


@dataclass(frozen=True)
class Drilled:
    """What came of the culprit as a port of its own."""

    operation: Operation | None
    reproduced: bool
    """Whether it computes, by itself, the very values that it computes in the model."""
    value: torch.Tensor | None = None
    """What the operation computed."""


def drill(suspects: Iterable[Suspect], bench: Bench, folder: Path) -> Drilled | None:
    """Runs each suspect alone until one fails as it does in the model; None if none can be run."""
    best: Drilled | None = None
    for suspect in suspects:
        for found in _attempts(suspect, bench, folder):
            if found.reproduced:
                return found
            best = best or found
    return best


def _attempts(suspect: Suspect, bench: Bench, folder: Path) -> Iterator[Drilled]:
    try:
        trial = set_up(suspect, bench, folder)
    except TorchportError:
        return
    for _ in trial.variants():
        try:
            attempt = trial.run()
        except TorchportError:
            continue
        operation = _operation(suspect, attempt.report)
        value = None if operation is None else _value(attempt)
        yield Drilled(operation, _is_same(suspect, attempt.chained), value)


def set_up(suspect: Suspect, bench: Bench, folder: Path) -> Trial:
    """The slice on the bench, with the weights that the candidate loads and every operation watched."""
    stored = {**suspect.capture.weights, **suspect.stored}
    return bench.set_up(suspect.capture, stored, folder, operations=True)


def _operation(suspect: Suspect, report: Report) -> Operation | None:
    found = report.first_divergence
    if found is None or found.kind != "own" or found.key is None:
        return None
    node = _node(suspect, found.key)
    if node is None:
        return None
    return Operation(
        node=node.name, op=node.op, source=node.source, reason=found.reason, metrics=found.metrics
    )


def _value(attempt: Attempt) -> torch.Tensor | None:
    """What the first operation that differs computed; all before it are right, so that no guidance was needed."""
    found = attempt.report.first_divergence
    with Trace(attempt.chained) as chained:
        known = found is not None and found.key is not None and found.key in chained
        return chained.get(found.key).clone() if known and found and found.key else None


def _node(suspect: Suspect, key: str) -> Node | None:
    """The operation that computed the value of a key in the slice's trace."""
    nodes = {node.name: node for node in suspect.slice.nodes}
    if (operation := operation_of(key)) is not None:
        return nodes.get(operation)
    call = suspect.plan.calls[suspect.plan.root]
    if key not in call.outputs:
        return None
    ref: Ref = suspect.slice.graph.root.outputs[call.outputs.index(key)]
    return nodes.get(ref.name)


def _is_same(suspect: Suspect, trace: Path) -> bool:
    """Whether the slice, without guidance, computes what the candidate computed at the culprit."""
    if suspect.key not in suspect.observed:
        return False
    with Trace(trace) as chained:
        here = suspect.here(suspect.key)
        if here not in chained:
            return False
        return (
            unexplained(suspect.golden(suspect.key), suspect.observed[suspect.key], chained.get(here)) < _SAME
        )


def unexplained(golden: torch.Tensor, candidate: torch.Tensor, predicted: torch.Tensor) -> float:
    """The share of the squared error of `candidate` that `predicted` does not have; 1 where it says nothing.

    NaN and Inf must be at the same places, or nothing is explained.
    """
    if candidate.shape != predicted.shape:
        return 1.0
    if golden.shape != candidate.shape:
        golden = torch.zeros_like(candidate)
    g, c, p = (tensor.detach().double().flatten() for tensor in (golden, candidate, predicted))
    if not _alike(c, p):
        return 1.0
    finite = torch.isfinite(g) & torch.isfinite(c) & torch.isfinite(p)
    total, left = (c - g)[finite].square().sum().item(), (c - p)[finite].square().sum().item()
    if total == 0.0:
        # All of the error is in NaN and Inf; the prediction must have some where the golden value has none.
        return 0.0 if left == 0.0 and not _alike(g, c) else 1.0
    return left / total


def _alike(first: torch.Tensor, second: torch.Tensor) -> bool:
    odd = ~torch.isfinite(first) | ~torch.isfinite(second)
    return torch.equal(
        torch.nan_to_num(first[odd], 0.5, 2.0, -2.0), torch.nan_to_num(second[odd], 0.5, 2.0, -2.0)
    )
