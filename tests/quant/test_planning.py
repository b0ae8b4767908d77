"""Plans: the mix of formats for a number of bytes, held against trying all mixes."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from torchport.quant.planned import plan_for
from torchport.quant.planning import Choice, frontier, hull, within_bytes, within_error
from torchport.quant.results import Drift, LayerDrift, SchemeDrift


def some_choices(seed: int) -> dict[str, list[Choice]]:
    draw = random.Random(seed)
    return {
        name: [Choice("f32", 32 * size, 0.0)]
        + [Choice(f"q{bits}", bits * size, draw.random() * 4.0**-bits) for bits in (2, 4, 5, 8)]
        for name, size in (("a", 3), ("b", 10), ("c", 1), ("d", 6))
    }


def all_mixes(choices: dict[str, list[Choice]]) -> list[tuple[int, float]]:
    return [
        (sum(c.bytes for c in mix), sum(c.error for c in mix)) for mix in itertools.product(*choices.values())
    ]


@pytest.mark.parametrize("seed", range(20))
def test_no_mix_is_smaller_and_better_than_one_of_the_frontier(seed: int) -> None:
    choices = some_choices(seed)
    mixes = all_mixes(choices)
    for planned in frontier(choices):
        assert not any(b <= planned.bytes and e < planned.error - 1e-12 for b, e in mixes)


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_keeps_to_its_bytes_and_is_nearly_the_best(seed: int) -> None:
    choices = some_choices(seed)
    for budget in (40, 55, 70, 100, 160, 700):
        planned = within_bytes(choices, budget)
        assert planned is not None and planned.bytes <= budget
        best = min(error for nbytes, error in all_mixes(choices) if nbytes <= budget)
        assert planned.error <= max(4 * best, 1e-12)
    assert within_bytes(choices, 39) is None


def test_a_choice_that_is_larger_and_worse_is_never_taken() -> None:
    good, bad, best = Choice("good", 4, 0.1), Choice("bad", 5, 0.2), Choice("best", 8, 0.0)
    assert hull([best, bad, good]) == [good, best]


def test_the_smallest_mix_for_an_error_is_found() -> None:
    choices = some_choices(1)
    planned = within_error(choices, 1e-3)
    assert planned is not None and planned.error <= 1e-3
    assert within_error({"a": [Choice("q2", 2, 1.0)]}, 0.5) is None


def drift_of(mix: dict[str, str], choices: dict[str, list[Choice]], factor: float) -> SchemeDrift:
    taken = [next(c for c in choices[name] if c.format == mix.get(name, "f32")) for name in choices]
    mse = factor * sum(choice.error for choice in taken)
    sqnr = float("inf") if mse == 0 else -10 * math.log10(mse)
    outputs = Drift(mse=mse, rmse=mse**0.5, max_abs=1, sqnr_db=sqnr, cosine=1)
    layers: tuple[LayerDrift, ...] = ()
    return SchemeDrift(
        scheme="plan", bytes=sum(c.bytes for c in taken), bits=4, outputs=outputs, layers=layers
    )


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_a_plan_for_a_drift_is_mended_until_what_is_measured_keeps_to_it(factor: float) -> None:
    choices = some_choices(3)
    plan = plan_for(
        choices,
        fixed_bytes=0,
        budget=None,
        max_drift=0.03,
        measure=lambda mix: drift_of(mix, choices, factor),
    )
    assert plan.met and plan.drift is not None and plan.drift.outputs.rmse <= 0.03
    assert plan.drift.bytes < 32 * 20


def test_a_budget_below_the_smallest_mix_is_said_with_its_size() -> None:
    choices = some_choices(3)
    plan = plan_for(choices, fixed_bytes=10, budget=49, max_drift=None, measure=lambda _: pytest.fail("ran"))
    assert not plan.met and plan.note is not None and "the smallest mix takes up" in plan.note


def test_a_drift_that_no_mix_keeps_to_is_missed() -> None:
    choices = {"a": [Choice("q2", 2, 1.0), Choice("q4", 4, 0.5)]}
    measure = lambda mix: drift_of(mix, choices, 1.0)  # noqa: E731
    assert not plan_for(choices, fixed_bytes=0, budget=None, max_drift=0.01, measure=measure).met
