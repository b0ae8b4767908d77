"""Suggestions for a culprit: hypotheses that were computed and reproduce what the port computed, or none.

Each hypothesis is tried on the recorded operands of the culprit; what it leaves of the error is measured. A hypothesis
that leaves more than a hundredth is not told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from torchport.explain.drill import unexplained
from torchport.explain.guesses import Guess, guesses_about, scaled
from torchport.explain.scene import Scene
from torchport.explain.slice import upstream
from torchport.explain.trial import Bound, bind, predict
from torchport.explain.weights import Others, differing, what_it_is
from torchport.parity.result import Suggestion
from torchport.parity.tolerance import FEW

WORTH_TELLING = 0.01
"""The most that a hypothesis may leave of the squared error."""
_AS_GOOD = 1e-9
_MOST = 3
_MOST_NODES = 60
_FIT_STEPS = 14
_SEARCH_STEPS = 32


@dataclass(frozen=True)
class _Tried:
    left: float
    rank: int
    suggestion: Suggestion


def suggest(scene: Scene, node: str | None, others: Others) -> tuple[Suggestion, ...]:
    """The best hypotheses, at most three; those about `node` alone, where the operation is known."""
    if scene.key not in scene.observed:
        return ()
    tried = list(_about_weights(scene, others))
    if not tried:
        bounds = bind(scene)
        chosen = [node] if node in bounds else [n for n in reversed(bounds) if n in _involved(scene)]
        chosen = chosen[:_MOST_NODES]
        for name in chosen:
            tried += _tried(scene, bounds[name], guesses_about(bounds[name]), len(tried))
        if not tried:
            tried += _about_the_value(scene)
        if not tried:
            tried += [one for name in chosen for one in _tried(scene, bounds[name], scaled(bounds[name]), 0)]
    best = min((one.left for one in tried), default=1.0)
    good = [one for one in tried if one.left <= max(10 * best, _AS_GOOD) and one.left <= WORTH_TELLING]
    good.sort(key=lambda one: one.rank)
    kinds: dict[str, Suggestion] = {}
    for one in good:
        kinds.setdefault(one.suggestion.kind, one.suggestion)
    return tuple(kinds.values())[:_MOST]


def _involved(scene: Scene) -> set[str]:
    """The operations on which the value at the scene's key depends."""
    root = scene.slice.graph.root
    return upstream(root.nodes, [root.outputs[scene.slice.outputs.index(scene.key)].name])


def _tried(scene: Scene, bound: Bound, guesses: Iterator[Guess], rank: int) -> Iterator[_Tried]:
    """Those of the hypotheses about an operation that are worth telling."""
    few = scene.observed[scene.key].numel() < FEW
    for number, guess in enumerate(guesses):
        if guess.span and few:
            continue  # A number can be fitted to any few numbers, and would explain nothing.
        found = _fitted(scene, bound, guess) if guess.span else (_left(scene, bound, guess.compute), None)
        if found[0] <= WORTH_TELLING:
            text = guess.text if found[1] is None else guess.text.format(value=f"{found[1]:.6g}")
            suggestion = Suggestion(kind=guess.kind, text=text, explains=1.0 - found[0], node=bound.node.name)
            yield _Tried(found[0], rank + number, suggestion)


def _left(scene: Scene, bound: Bound, compute: Callable[[], Any]) -> float:
    """What a hypothesis leaves of the error; 1 where it cannot be."""
    try:
        value = compute()
    except (RuntimeError, IndexError, ValueError, TypeError, AttributeError, NotImplementedError):
        return 1.0
    predicted = predict(scene, values={bound.node.name: value})
    return 1.0 if predicted is None else _measure(scene, predicted)


def _measure(scene: Scene, predicted: torch.Tensor) -> float:
    left = unexplained(scene.golden(scene.key), scene.observed[scene.key], predicted)
    return 1.0 if math.isnan(left) else left


def _fitted(scene: Scene, bound: Bound, guess: Guess) -> tuple[float, float | None]:
    """The number that leaves the least: powers of ten first, then a search between the best of them."""
    assert guess.span is not None

    def left(exponent: float) -> float:
        return _left(scene, bound, lambda: guess.compute(10.0**exponent))

    low, high = (math.log10(end) for end in guess.span)
    grid = [low + index * (high - low) / _FIT_STEPS for index in range(_FIT_STEPS + 1)]
    results = [left(point) for point in grid]
    at = min(range(len(grid)), key=results.__getitem__)
    best = _golden_section(left, grid[max(0, at - 1)], grid[min(len(grid) - 1, at + 1)])
    exact = left(best)
    for digits in (1, 2, 3):
        rounded = float(f"{10.0**best:.{digits - 1}e}")
        share = left(math.log10(rounded))
        if share <= max(1.5 * exact, 1e-6):
            return share, rounded
    return exact, float(f"{10.0**best:.4g}")


def _golden_section(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley between `low` and `high` is least."""
    ratio = (math.sqrt(5) - 1) / 2
    points = [high - ratio * (high - low), low + ratio * (high - low)]
    values = [function(point) for point in points]
    for _ in range(_SEARCH_STEPS):
        if values[0] < values[1]:
            high = points[1]
            points = [high - ratio * (high - low), points[0]]
            values = [function(points[0]), values[0]]
        else:
            low = points[0]
            points = [points[1], low + ratio * (high - low)]
            values = [values[1], function(points[1])]
    return (low + high) / 2


def _about_weights(scene: Scene, others: Others) -> Iterator[_Tried]:
    """Weights that are not those of the recording: what the port computes then is computed, not guessed."""
    recorded = scene.capture.weights
    names = differing(recorded, scene.stored)
    if not names:
        return
    predicted = predict(scene, weights={name: scene.stored[name] for name in names})
    left = 1.0 if predicted is None else _measure(scene, predicted)
    if left <= WORTH_TELLING:
        for rank, name in enumerate(names):
            kind, text = what_it_is(scene.slice.weights[name], scene.stored[name], recorded[name], others)
            yield _Tried(left, rank, Suggestion(kind=kind, text=text, explains=1.0 - left))


def _about_the_value(scene: Scene) -> Iterator[_Tried]:
    """What can be seen in the value itself: it is another value of the layer, or some of it was dropped."""
    observed, golden = scene.observed[scene.key], scene.golden(scene.key)
    if observed.shape != golden.shape:
        return
    root = scene.plan.root
    names = dict(
        zip((f"{root}<{i}" for i in range(len(scene.slice.inputs))), scene.slice.inputs, strict=True)
    )
    for key, value in scene.capture.golden.items():
        if value.shape == observed.shape and (left := _measure(scene, value)) <= WORTH_TELLING:
            text = f"it is the value of {names.get(key, key.partition('/')[2] or key)}"
            yield _Tried(left, 1, Suggestion(kind="wrong_tensor", text=text, explains=1.0 - left))
    dropped = (observed == 0) & (golden != 0)
    share = dropped.double().mean().item()
    if 0.01 < share < 0.99 and observed.is_floating_point():
        predicted = torch.where(dropped, 0.0, golden / (1.0 - share))
        for scale, text in (
            (predicted, f"dropout is on, with p near {share:.2g}"),
            (torch.where(dropped, 0.0, golden), f"{100 * share:.2g} % of the elements are zero"),
        ):
            if (left := _measure(scene, scale)) <= WORTH_TELLING:
                yield _Tried(left, 0, Suggestion(kind="dropout", text=text, explains=1.0 - left))
