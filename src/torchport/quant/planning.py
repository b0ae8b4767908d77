"""A mix of formats for a budget: which weight gets how many bits, by what each costs the output.

In: for each weight, bytes and expected output error in each format. Out: the mixes from the smallest to the best, each
the last with one weight in a better format. Errors of weights add up as noise does, which is checked by running.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Choice(NamedTuple):
    """A weight in a format: what it takes up, and the mean square error that it makes in the output."""

    format: str
    bytes: int
    error: float


class Planned(NamedTuple):
    """A mix, with what it takes up (of weights in blocks alone) and the error that is expected of it."""

    mix: dict[str, str]
    bytes: int
    error: float


def frontier(choices: Mapping[str, list[Choice]]) -> Iterator[Planned]:
    """Mixes by growing size: at each step the change that takes away the most error for its bytes."""
    hulls = {name: hull(of_weight) for name, of_weight in choices.items()}
    place = dict.fromkeys(hulls, 0)
    total = sum(steps[0].bytes for steps in hulls.values())
    waiting: list[tuple[float, str]] = []

    def gain(name: str) -> None:
        at, steps = place[name], hulls[name]
        if at + 1 < len(steps):
            now, then = steps[at], steps[at + 1]
            heapq.heappush(waiting, (-(now.error - then.error) / (then.bytes - now.bytes), name))

    for name in hulls:
        gain(name)
    while True:
        error = sum(steps[place[name]].error for name, steps in hulls.items())
        yield Planned({name: steps[place[name]].format for name, steps in hulls.items()}, total, error)
        if not waiting:
            return
        _, name = heapq.heappop(waiting)
        total += hulls[name][place[name] + 1].bytes - hulls[name][place[name]].bytes
        place[name] += 1
        gain(name)


def hull(choices: list[Choice]) -> list[Choice]:
    """The choices that are worth their bytes: each further one takes away less error for a byte than the one before."""
    kept: list[Choice] = []
    for choice in sorted(choices, key=lambda choice: (choice.bytes, choice.error)):
        if kept and choice.error >= kept[-1].error:
            continue
        while len(kept) >= 2 and _slope(kept[-2], kept[-1]) <= _slope(kept[-1], choice):
            kept.pop()
        if kept and kept[-1].bytes == choice.bytes:
            kept.pop()
        kept.append(choice)
    return kept


def _slope(smaller: Choice, larger: Choice) -> float:
    """The error that is taken away for a byte."""
    return (smaller.error - larger.error) / (larger.bytes - smaller.bytes)


def within_bytes(choices: Mapping[str, list[Choice]], budget: float) -> Planned | None:
    """The mix of the least error that takes up no more; None if even the smallest takes up more.

    Beyond the last step of the frontier that fits, smaller steps that still fit are taken.
    """
    fitting = None
    for planned in frontier(choices):
        if planned.bytes > budget:
            break
        fitting = planned
    return None if fitting is None else _filled(choices, fitting, budget)


def _filled(choices: Mapping[str, list[Choice]], planned: Planned, budget: float) -> Planned:
    """The mix with what is left of the budget spent on the best changes that still fit."""
    now = {
        name: next(choice for choice in choices[name] if choice.format == format_)
        for name, format_ in planned.mix.items()
    }
    left = budget - planned.bytes
    while True:
        changes = [
            (now[name].error - choice.error, name, choice)
            for name, of_weight in choices.items()
            for choice in of_weight
            if choice.error < now[name].error and choice.bytes - now[name].bytes <= left
        ]
        if not changes:
            break
        _, name, choice = max(changes, key=lambda change: change[0])
        left -= choice.bytes - now[name].bytes
        now[name] = choice
    mix = {name: choice.format for name, choice in now.items()}
    nbytes = sum(choice.bytes for choice in now.values())
    return Planned(mix, nbytes, sum(choice.error for choice in now.values()))


def within_error(choices: Mapping[str, list[Choice]], most: float) -> Planned | None:
    """The smallest mix of the frontier that is expected to make no more error; None if there is none."""
    return next((planned for planned in frontier(choices) if planned.error <= most), None)
