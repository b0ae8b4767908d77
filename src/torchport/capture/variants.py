"""The same model at other sizes: what shows which of its numbers follow from which.

In: a model that can be made again with other numbers. Out: graphs of it at other sizes, captured on the meta device,
and the numbers that each was made from. Every number that changes what the model does is changed in all of them, each
by a factor of its own, so that two sizes which were equal by chance are not equal again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture.exported import Exported
from torchport.capture.fields import with_numbers
from torchport.capture.random_numbers import random_numbers_kept
from torchport.capture.rebuild import Inputs, Recipe, find_recipe, on_meta
from torchport.capture.torch_internals import pytree
from torchport.capture.trial import Trial, attempt_run, construct
from torchport.errors import CaptureError

_FEWEST, _MOST = 2, 3
"""How many variants are captured: more than the fewest if in these two sizes still look like one."""
_FACTORS = ((3, 2), (2, 1), (3, 1), (5, 2), (5, 4), (7, 4), (1, 2), (3, 4))
_MOST_FIELDS = 80
_LIKELY_COUNTS = range(2, 129)
"""Numbers that may be the length of a list of layers, of which a variant needs but few."""
_FEW = (2, 3, 4, 5, 6)
_LARGER_FIRST = (4, 6, 5, 3, 2)

Numbers = dict[str, int | float]
Export = Callable[[torch.nn.Module, Inputs], Exported]


@dataclass(frozen=True)
class Variants:
    """The graph of a model with its variants, and why there are none."""

    graph: g.Graph
    reason: str | None = None


def with_variants(model: torch.nn.Module, inputs: Inputs, graph: g.Graph, export: Export) -> Variants:
    """The graph with the same model at other sizes beside it, if the model can be made again."""
    with random_numbers_kept(model):
        recipe = find_recipe(model)
        if isinstance(recipe, str):
            return Variants(graph, recipe)
        if len(recipe.numbers) > _MOST_FIELDS:
            return Variants(
                graph, f"it is made from {len(recipe.numbers)} numbers, which are too many to change"
            )
        start = attempt_run(recipe, {}, on_meta(inputs))
        if isinstance(start, str):
            return Variants(graph, f"it does not run on the meta device: {start}")
        search = _Search(recipe, on_meta(inputs), start)
        found: list[g.Graph] = []
        while len(found) < _FEWEST or (len(found) < _MOST and search.looks_alike()):
            chosen = search.resized()
            if chosen is None:
                return Variants(graph, "none of the numbers that it is made from can be changed")
            try:
                found.append(_captured(recipe, chosen, export, graph.name))
            except CaptureError as error:
                return Variants(graph, f"it cannot be captured at other sizes: {error.message}")
    return Variants(replace(graph, config=recipe.fields, variants=tuple(found)))


@dataclass(frozen=True)
class _Chosen:
    numbers: Numbers
    inputs: Inputs


def _captured(recipe: Recipe, chosen: _Chosen, export: Export, name: str) -> g.Graph:
    model, own = recipe.made(chosen.numbers)
    with torch.device("meta"):
        exported = export(model, own or chosen.inputs)
    return replace(exported.graph, config=with_numbers(recipe.fields, chosen.numbers))


@dataclass(frozen=True)
class _State:
    """The numbers that are changed so far, inputs that fit them, and what the model does with them."""

    numbers: Numbers
    inputs: Inputs
    trial: Trial


class _Search:
    """Looks for numbers that a model can be made from so that it still does the same operations."""

    def __init__(self, recipe: Recipe, inputs: Inputs, start: Trial):
        self.recipe, self.inputs, self.start = recipe, inputs, start
        self.idle: set[str] = set()
        """The numbers that change nothing that the model does."""
        self.counts = self._counts()
        self.groups: list[tuple[str, ...]] = []
        """Numbers that can be changed, those together that must stay equal."""
        self.chosen: list[Numbers] = []

    def _counts(self) -> dict[str, int]:
        """The numbers that say how many layers there are."""
        modules = self.start.modules
        return {
            name: value
            for name, value in self.recipe.numbers.items()
            if isinstance(value, int)
            and value in _LIKELY_COUNTS
            and (construct(self.recipe, {name: value - 1}) or modules) < modules
        }

    def looks_alike(self) -> bool:
        """Whether one of the numbers that were changed is still a product, quotient or multiple of others."""
        known = self.recipe.numbers
        columns = [
            (value, *(chosen.get(name, value) for chosen in self.chosen))
            for name, value in known.items()
            if isinstance(value, int) and any(name in chosen for chosen in self.chosen)
        ]
        whole = [column for column in columns if all(column)]
        pairs = {tuple(x * y for x, y in zip(a, b, strict=True)) for a, b in combinations(whole, 2)}
        ratios = [tuple(Fraction(int(x), int(a[0])) for x in a) for a in whole]
        return len(set(ratios)) < len(ratios) or any(column in pairs for column in whole)

    def resized(self) -> _Chosen | None:
        """Other numbers for everything that matters, and inputs that fit them."""
        known, turn = self.recipe.numbers, len(self.chosen)
        now = _State({}, self.inputs, self.start)
        for name in self.counts:
            now = self._step(now, (name,), self._few(name, turn))
        if turn == 0:
            self.groups = [(name,) for name in known if name not in self.counts]
        changed: list[tuple[str, ...]] = []
        for index, names in enumerate(self.groups):
            before, now = now, self._step(now, names, self._others(now, names, index + 3 * turn))
            changed += [names] if now is not before else []
        if turn == 0:
            moved = {*self.idle, *now.numbers}
            for names in _equal(known, [name for (name,) in self.groups if name not in moved]):
                if not any(name in now.numbers for name in names):
                    before, now = now, self._step(now, names, self._others(now, names, len(changed)))
                    changed += [names] if now is not before else []
            self.groups = changed
        self.chosen.append(now.numbers)
        return _Chosen(now.numbers, now.inputs) if now.numbers else None

    def _few(self, name: str, turn: int) -> list[int]:
        """Other numbers of layers, larger first if another number is equal: small ones are left to that one."""
        known = self.recipe.numbers
        is_alone = list(known.values()).count(known[name]) == 1
        few = [count for count in (_FEW if is_alone else _LARGER_FIRST) if count != known[name]]
        return few[turn:] + few[:turn]

    def _step(self, now: _State, names: tuple[str, ...], choice: Iterable[int | float]) -> _State:
        """The state with some numbers changed together, if the model can be made so; else as it is."""
        old = self.recipe.numbers[names[0]]
        for value in choice:
            if self._is_taken(names, value, now.numbers):
                continue
            wanted = {**now.numbers, **dict.fromkeys(names, value)}
            for fitting in _fitted(now.inputs, old, value):
                found = attempt_run(self.recipe, wanted, fitting)
                if isinstance(found, str):
                    continue
                if found.trace == now.trial.trace:
                    self.idle.update(names)
                    return now
                if found.operations == self.start.operations:
                    return _State(wanted, fitting, found)
                break
        return now

    def _others(self, now: _State, names: tuple[str, ...], turn: int) -> list[int | float]:
        """Other values for numbers that are equal; first those that make them unlike all else in the model."""
        known = self.recipe.numbers
        old = known[names[0]]
        used = {_ratio(value, known[name]) for name, value in now.numbers.items()}
        sizes = {size for tensor in _tensors(now.inputs) for size in tensor.shape}
        before = self._before(names[0])

        def likeness(value: int | float) -> tuple[bool, bool, bool]:
            is_axis = isinstance(value, int) and bool({value, 2 * value} & sizes)
            return value in before, _ratio(value, old) in used, is_axis

        return sorted(_others(old, turn), key=likeness)

    def _is_taken(self, names: tuple[str, ...], value: int | float, now: Numbers) -> bool:
        """Whether another number that was equal in all variants would be equal again."""
        return any(
            now[other] == value and self._before(other) == self._before(names[0])
            for other in now
            if other not in names
        )

    def _before(self, name: str) -> list[int | float]:
        known = self.recipe.numbers[name]
        return [known, *(chosen.get(name, known) for chosen in self.chosen)]


def _others(value: int | float, turn: int) -> Iterator[int | float]:
    """Other values for a number, none of them twice."""
    if isinstance(value, float):
        factor = 1 + (1 + turn % 7) / 8
        yield value * factor if value else factor / 16
        return
    seen = {value}
    turned = [*_FACTORS[turn % len(_FACTORS) :], *_FACTORS[: turn % len(_FACTORS)]]
    scaled = [value * up // down for up, down in turned if value * up % down == 0]
    near = [value + 1 + turn % 3, value + 1, value + 2, value - 1]
    for other in scaled + near if value > 1 else near + scaled:
        # A size of 1 is not like others: axes of that size are broadcast, steps of it are no steps.
        if other > 1 and other not in seen:
            seen.add(other)
            yield other


def _ratio(value: int | float, old: int | float) -> float | None:
    return value / old if old else None


def _equal(known: Mapping[str, int | float], names: list[str]) -> Iterator[tuple[str, ...]]:
    """Numbers that are equal and may have to stay so: all with one value, then by twos."""
    by_value: dict[int | float, list[str]] = {}
    for name in names:
        by_value.setdefault(known[name], []).append(name)
    for same in by_value.values():
        if len(same) > 1:
            yield tuple(same)
    for same in by_value.values():
        if 2 < len(same) < 6:
            yield from ((a, b) for i, a in enumerate(same) for b in same[i + 1 :])


def _fitted(inputs: Inputs, old: int | float, new: int | float) -> Iterator[Inputs]:
    """The inputs as they are, and with axes that had the old size, or twice it, made longer or shorter alike."""
    yield inputs
    if not isinstance(old, int) or not isinstance(new, int) or old < 2:
        return
    for factor in (1, 2):
        sizes = {old * factor: new * factor}

        def resized(tensor: torch.Tensor, sizes: dict[int, int] = sizes) -> torch.Tensor:
            shape = [sizes.get(size, size) for size in tensor.shape]
            return torch.empty(shape, dtype=tensor.dtype, device="meta")

        changed: Any = pytree.tree_map_only(torch.Tensor, resized, inputs)
        if [tensor.shape for tensor in _tensors(changed)] != [tensor.shape for tensor in _tensors(inputs)]:
            yield changed


def _tensors(inputs: Inputs) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
