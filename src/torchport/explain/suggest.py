"""Suggestions for a culprit: hypotheses that were computed and reproduce what the port computed, or none.

Each hypothesis is tried on the recorded operands of the culprit, and the share of the error that it leaves is measured.
A hypothesis that leaves more than a hundredth is not suggested.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchport.explain.bound_operation import BoundOperation
from torchport.explain.drill import unexplained
from torchport.explain.fitting import fit
from torchport.explain.hypotheses import (
    Hypothesis,
    hypotheses_about,
    hypotheses_about_values,
    result_scaled,
)
from torchport.explain.noted_run import CANNOT_COMPUTE
from torchport.explain.slice import upstream
from torchport.explain.suspect import Suspect
from torchport.explain.weights import Others, how_it_differs, other_than_recorded
from torchport.explain.what_if import WrongValue, bind, bound_value, differing, input_names, predict
from torchport.parity.bins import FEW
from torchport.parity.result import Suggestion
from torchport.trace.plan import input_key, operation_of

_MOST_LEFT = 0.01
"""The most that a hypothesis may leave of the squared error."""
_AS_GOOD_AS_NOTHING = 1e-9
_NOTHING_MORE = 1e-6
"""If a hypothesis leaves no more than this, less believed ones are not tried."""
_MOST_SUGGESTIONS = 3
_MOST_OPERATIONS = 60
_MOST_PAIRS = 10
"""So many pairs of inputs are tried in each other's place."""


@dataclass(frozen=True)
class _Explanation:
    """A hypothesis that holds."""

    left: float
    """The share of the squared error that it leaves."""
    rank: int
    """The lower, the more it is believed."""
    suggestion: Suggestion


def suggest(
    suspect: Suspect, node: str | None, others: Others, wrong: WrongValue | None = None
) -> tuple[Suggestion, ...]:
    """The best hypotheses, at most three; only those about `node` if it is known to be the operation at fault.

    `wrong` is a value that is known to be another in the candidate. Hypotheses about it are measured there, and all
    others at the suspect's key.
    """
    if suspect.key not in suspect.observed:
        return ()
    return _most_believed(_explanations(suspect, node, others, wrong))


def suggest_about(operation: BoundOperation) -> tuple[Suggestion, ...]:
    """The best hypotheses, at most three, about an operation of which the candidate's result is known."""
    if operation.observed is None:
        return ()
    return _most_believed(_by_operations(None, [operation]) or _by_a_factor(None, [operation]))


def _explanations(
    suspect: Suspect, node: str | None, others: Others, wrong: WrongValue | None
) -> list[_Explanation]:
    """What the weights explain, or else the operations, the value itself, the inputs, or a mere factor."""
    by_weights = list(_by_weights(suspect, others))
    if by_weights:
        return by_weights
    layer = bind(suspect)
    known = None if wrong is None else bound_value(suspect, layer, wrong)
    operations = _operations(suspect, layer, node)
    if known is not None and not known.is_a_copy:
        operations = [one for one in operations if one.node.name != known.node.name]
    return (
        (_by_operations(suspect, [known]) if known is not None else [])
        or _by_operations(suspect, operations)
        or list(_by_value(suspect))
        or _by_operations(suspect, [bound_value(suspect, layer, differing(suspect))])
        or list(_by_inputs(suspect))
        or _by_a_factor(suspect, operations)
    )


def _most_believed(explanations: list[_Explanation]) -> tuple[Suggestion, ...]:
    """Of those that leave about as little as the best, one of each kind."""
    least = min((one.left for one in explanations), default=1.0)
    enough = min(max(10 * least, _AS_GOOD_AS_NOTHING), _MOST_LEFT)
    good = sorted((one for one in explanations if one.left <= enough), key=lambda one: one.rank)
    by_kind: dict[str, Suggestion] = {}
    for one in good:
        by_kind.setdefault(one.suggestion.kind, one.suggestion)
    return tuple(by_kind.values())[:_MOST_SUGGESTIONS]


def _operations(
    suspect: Suspect, operations: Mapping[str, BoundOperation], node: str | None
) -> list[BoundOperation]:
    """The operation at fault if it is known; else all on which the value in question depends, the last first."""
    if node is not None and node in operations:
        return [operations[node]]
    root = suspect.slice.graph.root
    involved = upstream(root.nodes, [root.outputs[suspect.slice.outputs.index(suspect.key)].name])
    return [operations[name] for name in reversed(list(operations)) if name in involved][:_MOST_OPERATIONS]


def _by_operations(suspect: Suspect | None, operations: Sequence[BoundOperation]) -> list[_Explanation]:
    """What the settings of the operations explain and, if that is not all, what their operands and results do."""
    found: list[_Explanation] = []
    for hypotheses in (hypotheses_about, hypotheses_about_values):
        for operation in operations:
            found += _that_hold(suspect, operation, hypotheses(operation), first_rank=len(found))
        if min((one.left for one in found), default=1.0) <= _NOTHING_MORE:
            break
    return found


def _by_a_factor(suspect: Suspect | None, operations: Iterable[BoundOperation]) -> list[_Explanation]:
    found: list[_Explanation] = []
    for operation in operations:
        found += _that_hold(suspect, operation, result_scaled(operation), first_rank=0)
    return found


def _that_hold(
    suspect: Suspect | None, operation: BoundOperation, hypotheses: Iterable[Hypothesis], first_rank: int
) -> Iterator[_Explanation]:
    """Those of the hypotheses about an operation that explain the difference, at the suspect's key or in its result."""
    observed = operation.observed if suspect is None else suspect.observed[suspect.key]
    few = observed is not None and observed.numel() < FEW
    for rank, hypothesis in enumerate(hypotheses, first_rank):
        if hypothesis.span and few:
            continue  # A number can be fitted to any few numbers, and would explain nothing.
        left, text = _tried(suspect, operation, hypothesis)
        if left <= _MOST_LEFT:
            node = None if operation.is_a_copy else operation.node.name
            yield _explanation(left, rank, hypothesis.kind, text, node)


def _tried(suspect: Suspect | None, operation: BoundOperation, hypothesis: Hypothesis) -> tuple[float, str]:
    """The share of the error that a hypothesis leaves, and its text with the number that was fitted."""
    if hypothesis.span is None:
        return _left(suspect, operation, hypothesis.compute), hypothesis.text
    best = fit(lambda number: _left(suspect, operation, hypothesis.compute, number), hypothesis.span)
    return best.left, hypothesis.text.format(value=f"{best.number:.6g}")


def _left(
    suspect: Suspect | None, operation: BoundOperation, compute: Callable[..., Any], *numbers: float
) -> float:
    """The share of the error that is left if the operation has the computed result; 1 if that cannot be computed."""
    try:
        result = compute(*numbers)
    except (*CANNOT_COMPUTE, AttributeError):
        return 1.0
    if operation.observed is not None:
        return _not_nan(unexplained(operation.result, operation.observed, result))
    predicted = None if suspect is None else predict(suspect, results={operation.node.name: result})
    return 1.0 if suspect is None or predicted is None else _measured(suspect, predicted)


def _measured(suspect: Suspect, predicted: torch.Tensor) -> float:
    return _not_nan(unexplained(suspect.golden(suspect.key), suspect.observed[suspect.key], predicted))


def _not_nan(left: float) -> float:
    return 1.0 if math.isnan(left) else left


def _explanation(left: float, rank: int, kind: str, text: str, node: str | None = None) -> _Explanation:
    return _Explanation(left, rank, Suggestion(kind=kind, text=text, explains=1.0 - left, node=node))


def _by_weights(suspect: Suspect, others: Others) -> Iterator[_Explanation]:
    """The port loads other weights than were recorded, and computes what follows from them."""
    recorded = suspect.capture.weights
    names = other_than_recorded(recorded, suspect.stored)
    if not names:
        return
    predicted = predict(suspect, weights={name: suspect.stored[name] for name in names})
    left = 1.0 if predicted is None else _measured(suspect, predicted)
    if left <= _MOST_LEFT:
        for rank, name in enumerate(names):
            found = how_it_differs(suspect.slice.weights[name], suspect.stored[name], recorded[name], others)
            yield _explanation(left, rank, found.kind, found.text)


def _by_inputs(suspect: Suspect) -> Iterator[_Explanation]:
    """Two inputs of the layer in each other's place, or one in the place of another; a mask without effect."""
    named = [(_input_name(suspect, index), value) for index, value in enumerate(suspect.inputs)]
    pairs = [
        (first, second)
        for first, second in itertools.combinations(range(len(named)), 2)
        if named[first][1].shape == named[second][1].shape and named[first][1].dtype == named[second][1].dtype
    ]
    for first, second in pairs[:_MOST_PAIRS]:
        (one, value), (other, another) = named[first], named[second]
        yield from _with_inputs(
            suspect, {first: another, second: value}, "swapped_operands", f"{one} and {other} are swapped"
        )
        yield from _with_inputs(suspect, {first: another}, "wrong_tensor", f"{one} is {other}")
        yield from _with_inputs(suspect, {second: value}, "wrong_tensor", f"{other} is {one}")
    for index, (name, value) in enumerate(named):
        if value.dtype == torch.bool or bool(((value == 0) | (value == 1)).all()):
            text = f"the flags of {name} have no effect, as if"
            yield from _with_inputs(suspect, {index: torch.ones_like(value)}, "mask", f"{text} all were set")
            yield from _with_inputs(
                suspect, {index: torch.zeros_like(value)}, "mask", f"{text} none were set"
            )


def _input_name(suspect: Suspect, index: int) -> str:
    return input_names(suspect)[suspect.slice.graph.root.inputs[index].name]


def _with_inputs(
    suspect: Suspect, inputs: dict[int, torch.Tensor], kind: str, text: str
) -> Iterator[_Explanation]:
    predicted = predict(suspect, inputs=inputs)
    if predicted is not None and (left := _measured(suspect, predicted)) <= _MOST_LEFT:
        yield _explanation(left, 0, kind, text)


def _by_value(suspect: Suspect) -> Iterator[_Explanation]:
    """What the value itself shows: it is another value of the layer."""
    observed = suspect.observed[suspect.key]
    inputs = {input_key(suspect.plan.root, index): key for index, key in enumerate(suspect.slice.inputs)}
    for key, value in suspect.capture.golden.items():
        if value.shape == observed.shape and (left := _measured(suspect, value)) <= _MOST_LEFT:
            text = f"it is the value of {inputs.get(key, operation_of(key) or key)}"
            yield _explanation(left, 1, "wrong_tensor", text)
