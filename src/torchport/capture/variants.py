"""The same model at other sizes: what shows which of its numbers follow from which.

In: a model that can be made again with other numbers. Out: graphs of it at other sizes, captured on the meta device,
and the numbers that each was made from. Every number that changes what the model does is changed in all of them, each
by a factor of its own, so that two sizes which were equal by chance are not equal again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, count
from typing import Any

import torch

from torchport.capture import graph as g
from torchport.capture.beside import Tensors, differing, names_beside, values_beside
from torchport.capture.exported import Exported
from torchport.capture.fields import with_numbers
from torchport.capture.moved import Moves
from torchport.capture.random_numbers import random_numbers_kept
from torchport.capture.rebuild import Inputs, Recipe, find_recipe, on_meta
from torchport.capture.torch_internals import pytree
from torchport.capture.trial import Trial, attempt_run, construct
from torchport.errors import CaptureError

_FEWEST, _MOST = 2, 3
"""How many variants are captured: more than the fewest if in these two sizes still look like one."""
_FACTORS = ((3, 2), (2, 1), (3, 1), (5, 2), (5, 4), (7, 4), (1, 2), (3, 4), (4, 1))
_UNEVEN = ((17, 16), (13, 8), (11, 8), (9, 8), (19, 16))
_FAR = ((17, 1), (19, 1), (13, 1), (11, 1))
_SMALL = 3
"""A number up to this is no size that is divided or cut off."""
_SCALAR = "a number that forward makes a tensor of"
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


def with_variants(model: torch.nn.Module, inputs: Inputs, exported: Exported, export: Export) -> Variants:
    """The graph with the same model at other sizes beside it, if the model can be made again."""
    graph = exported.graph
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
            recipe = replace(recipe, keeps_scalars=False)
            start = attempt_run(recipe, {}, on_meta(inputs))
        if isinstance(start, str):
            return Variants(graph, f"it does not run on the meta device: {start}")
        search = _Search(recipe, on_meta(inputs), start)
        found: list[Exported] = []
        while len(found) < _FEWEST or (len(found) < _MOST and search.looks_alike()):
            chosen = search.resized()
            if chosen is None:
                return Variants(graph, "none of the numbers that it is made from can be changed")
            try:
                found.append(_captured(recipe, chosen, export))
            except CaptureError as error:
                return Variants(graph, f"it cannot be captured at other sizes: {error.message}")
    all_sizes = [exported, *found]
    own, *others = _with_scalars(all_sizes, names_beside(model))
    return Variants(
        replace(
            own,
            config=recipe.fields,
            variants=tuple(others),
            moves=search.moves.found(),
            bound=search.bound(own, _other_constants(all_sizes)),
        )
    )


@dataclass(frozen=True)
class _Chosen:
    numbers: Numbers
    inputs: Inputs


def _captured(recipe: Recipe, chosen: _Chosen, export: Export) -> Exported:
    def exported(recipe: Recipe) -> Exported:
        model, own = recipe.made(chosen.numbers)
        with recipe.on_meta():
            return export(model, own or chosen.inputs)

    try:
        found = exported(recipe)
    except CaptureError:
        if not recipe.keeps_scalars:
            raise
        found = exported(replace(recipe, keeps_scalars=False))
    return replace(found, graph=replace(found.graph, config=with_numbers(recipe.fields, chosen.numbers)))


def _with_scalars(all_sizes: Sequence[Exported], beside: set[str]) -> list[g.Graph]:
    """The graphs, with the values of tensors that are one number and no weight, if these are known at all sizes."""
    graphs = [exported.graph for exported in all_sizes]
    scalars = [_scalars(exported, beside) for exported in all_sizes]
    known = [{name: value for name, value in found.items() if value is not None} for found in scalars]
    is_moving = any(found.get(name, value) != value for found in known for name, value in known[0].items())
    if known != scalars or not is_moving:
        return graphs
    return [_with_known(graph, found) for graph, found in zip(graphs, known, strict=True)]


def _with_known(graph: g.Graph, values: Mapping[str, int | float]) -> g.Graph:
    weights = {
        name: replace(weight, value=values[name]) if name in values else weight
        for name, weight in graph.weights.items()
    }
    return replace(graph, weights=weights)


def _scalars(exported: Exported, beside: set[str]) -> dict[str, int | float | None]:
    """Tensors that are one number and no weight; None for one without a value."""
    found: dict[str, int | float | None] = {}
    for name, weight in exported.graph.weights.items():
        is_beside = weight.kind == "constant" or name in beside
        if is_beside and weight.meta.shape == () and weight.meta.dtype in (*g.FLOATS, "int64"):
            tensor = exported.weights[name]
            found[name] = None if tensor.is_meta else tensor.item()
    return found


def _other_constants(all_sizes: Sequence[Exported]) -> list[str]:
    """Constants of the code that have other values in the same shape, where both are known."""
    first, *others = [
        {
            name: exported.weights[name]
            for name, weight in exported.graph.weights.items()
            if weight.kind == "constant" and weight.meta.shape and not exported.weights[name].is_meta
        }
        for exported in all_sizes
    ]
    return sorted({name for other in others for name in differing(first, other)})


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
        self.moves = Moves(start.trace)
        self._beside = values_beside(recipe, {}) if names_beside(recipe.made({})[0]) else {}
        self._bound: dict[str, list[str]] = {}

    def bound(self, graph: g.Graph, others: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """For each field, the tensors that are no weights, have other values if it is changed, and none that is known.

        `others` are such tensors, of which nobody knows the field.
        """
        known = {name for name, weight in graph.weights.items() if weight.value is not None}
        known |= {_SCALAR} if known else set()
        names = {name for chosen in self.chosen for name in chosen}
        found = {name: [*self._bound.get(name, ()), *others] for name in sorted(names)}
        found = {name: [item for item in items if item not in known] for name, items in found.items()}
        return {name: tuple(dict.fromkeys(items)) for name, items in found.items() if items}

    def _note(self, names: Sequence[str], before: _State, after: _State) -> None:
        """What changed with the fields of these names, which alone are not the same before and after."""
        if not self.chosen:
            self.moves.changed(names, after.trial.trace)
        beside = values_beside(self.recipe, after.numbers) if self._beside != {} else {}
        found = differing(self._beside, beside)
        constants = [_of_list(state.trial.constants) for state in (before, after)]
        found += [
            _SCALAR if name.startswith("()") else "a tensor that forward makes"
            for name in differing(*constants)
        ]
        for name in names:
            self._bound.setdefault(name, []).extend(found)
        self._beside = beside

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
        if turn and self._beside != {}:
            self._beside = values_beside(self.recipe, {})
        for name in self.counts:
            now = self._step(now, (name,), self._few(name, turn))
        if turn == 0:
            self.groups = [(name,) for name in known if name not in self.counts]
        changed: list[tuple[str, ...]] = []
        for index, names in enumerate(self.groups):
            before, now = now, self._step(now, names, self._others(now, names, index + 3 * turn))
            changed += [names] if now is not before else []
        for names in self.groups:  # What others stood in the way of may be possible now.
            if names not in changed and not self.idle.intersection(names):
                before, now = now, self._step(now, names, self._others(now, names, len(changed)))
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
                    after = _State(wanted, fitting, found)
                    self._note(names, now, after)
                    return after
                break
        return now

    def _others(self, now: _State, names: tuple[str, ...], index: int) -> list[int | float]:
        """Other values for numbers that are equal; first those that make them unlike all else in the model."""
        known = self.recipe.numbers
        old = known[names[0]]
        used = {_ratio(value, known[name]) for name, value in now.numbers.items()}
        sizes = {size for tensor in _tensors(now.inputs) for size in tensor.shape}
        before = self._before(names[0])

        def likeness(value: int | float) -> tuple[bool, bool, bool]:
            is_axis = isinstance(value, int) and bool({value, 2 * value} & sizes)
            return value in before, _ratio(value, old) in used, is_axis

        return sorted(_others(old, index, len(self.chosen)), key=likeness)

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


def _others(value: int | float, index: int, turn: int) -> Iterator[int | float]:
    """Other values for the number at this place among all, none of them twice; in each variant (`turn`) others first.

    In the first variant these are multiples and parts, so that what must divide another can still be changed. In the
    second they are far larger and divided by nothing, so that what was cut off, or divided and rounded, shows it.
    """
    index += 3 * turn
    if isinstance(value, float):
        factor = 1 + (1 + index % 7) / 8
        yield value * factor if value else factor / 16
        return
    near = [value + 1 + index % 3, value + 1, value + 2, value - 1]
    even = _scaled(value, _FACTORS, index)
    choice = even + near if value > 1 else near + even
    if turn == 1 and value > _SMALL:
        far = [*_primes((17 + index % 7) * value, 2), *_scaled(value, _FAR, index)]
        choice = [*far, *_primes(value + index % 5, 3), *_scaled(value, _UNEVEN, index), *choice]
    seen = {value}
    for other in choice:
        # A size of 1 is not like others: axes of that size are broadcast, steps of it are no steps.
        if other > 1 and other not in seen:
            seen.add(other)
            yield other


def _scaled(value: int, factors: Sequence[tuple[int, int]], index: int) -> list[int]:
    """Multiples and parts of a number that are whole, beginning with the factor at the index."""
    start = index % len(factors)
    turned = [*factors[start:], *factors[:start]]
    return [value * up // down for up, down in turned if value * up % down == 0]


def _primes(above: int, count: int) -> list[int]:
    """The next primes."""
    found: list[int] = []
    while len(found) < count:
        above += 1
        if all(above % divisor for divisor in range(2, math.isqrt(above) + 1)):
            found.append(above)
    return found


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


def _of_list(constants: Sequence[torch.Tensor]) -> Tensors:
    """Constants by names: their shapes, and how many of that shape came before."""
    found: Tensors = {}
    for tensor in constants:
        shape = f"({', '.join(map(str, tensor.shape))})"
        number = next(n for n in count() if f"{shape} {n}" not in found)
        found[f"{shape} {number}"] = tensor
    return found
