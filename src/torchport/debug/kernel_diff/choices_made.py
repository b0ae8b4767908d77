"""A look at what failed because the backend chose otherwise: a module, or a graph, is judged given its choices.

In a row of operations, each of which computes with what those before it gave, values differ by their arithmetic. Where
two are equal but for that, an operation that chooses between them gives another place, which is no error by itself, and
what comes after is about another element. So the row is computed once more with the backend's choices in the place of
eager PyTorch's, provided that each of them is possible, and as good: by the truth, what was chosen is no farther from
the best than two values may be moved that are within the limit of what they are compared by. And there may be but some
times as many that the truth would choose otherwise as eager PyTorch has, or the class of arithmetic: a kernel that
breaks ties in another way chooses otherwise wherever there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.debug.kernel_diff.choosing import (
    CHOOSERS,
    OFFSETS_TO_PLACES,
    POOL_BY_OFFSETS,
    Chooser,
    bound,
    choice_of,
    of_pool,
)
from torchport.debug.kernel_diff.computing import Computing, Mode, ValueOf, as_class, as_it_is, in_float64
from torchport.debug.kernel_diff.measuring import MeasuredGraph, attempt
from torchport.debug.kernel_diff.steps import Step
from torchport.debug.kernel_diff.values import is_right
from torchport.explain.repro import counted
from torchport.parity.bins import MULTIPLE
from torchport.parity.choices import FEWEST
from torchport.parity.dtypes import name_of, rounding_step
from torchport.parity.rulebook import NOISE_FLOOR, RuleBook
from torchport.trace.residual import widened


@dataclass
class Settled:
    """The choices of a backend in one run of a row, and what they were made from."""

    chosen: Mapping[str, Tensor]
    """By the node of the operation that chooses."""
    operands: dict[str, list[Tensor]] = field(default_factory=dict)
    """By node, what was held against each other."""
    deficits: dict[str, Tensor] = field(default_factory=dict)
    own: dict[str, Tensor] = field(default_factory=dict)
    """By node, what the run itself would choose."""
    others: int = 0
    """How many elements were chosen otherwise."""
    _pool: Any = None

    def __call__(self, node: torch.fx.Node, found: Any, value_of: ValueOf) -> Any:
        """What an operation gives with the choice of the backend in the place of its own.

        ValueError if that is none.
        """
        if str(node.target) == POOL_BY_OFFSETS:
            self._pool = _arguments(node, value_of), found
        if (chosen := self.chosen.get(node.name)) is None:
            return found
        if str(node.target) == OFFSETS_TO_PLACES:
            given, (best, _) = self._pool
            return self._instead(node, (best, found), given, chosen, Chooser(1, of_pool))[1]
        return self._instead(node, found, _arguments(node, value_of), chosen, CHOOSERS[node.target])

    def _instead(
        self, node: torch.fx.Node, found: Any, given: Mapping[str, Any], chosen: Tensor, how: Chooser
    ) -> Any:
        own = found if how.place is None else found[how.place]
        chosen = chosen.to(own.device)
        if (chosen.shape, chosen.dtype) != (own.shape, own.dtype):
            raise ValueError(f"the backend gives {chosen.dtype} {list(chosen.shape)} for a choice")
        self.operands[node.name] = [side for side in (given[name] for name in how.sides) if _is_float(side)]
        deficit = how.deficit(found, given, chosen)
        self.deficits[node.name] = torch.where(own == chosen, 0.0, deficit)
        self.own[node.name] = own
        self.others += int((own != chosen).sum())
        if how.place is None:
            return chosen
        parts = list(found)
        parts[how.place] = chosen
        return tuple(parts)


class _Row(NamedTuple):
    """Operations that are judged in a row: those of a module, or a whole graph."""

    steps: Sequence[Step]
    outputs: Sequence[torch.fx.Node]
    candidates: Sequence[Tensor | None]
    """What the backend gave for the outputs."""
    compute: Callable[[Computing, Mode], list[Any]]


@dataclass
class ChoicesMade:
    one: MeasuredGraph
    rules: RuleBook
    arithmetic: Arithmetic

    def excused(self, failed: Collection[str]) -> dict[str, str]:
        """By call of those that failed, why it is right all the same."""
        if self.rules is not NOISE_FLOOR:
            return {}
        found = {name: self._why_right(row) for name, row in self._rows(failed)}
        return {name: why for name, why in found.items() if why is not None}

    def _rows(self, failed: Collection[str]) -> Iterator[tuple[str, _Row]]:
        one, scope = self.one, self.one.plan.scope
        for name, part in one.plan.parts.items():
            if name in failed:
                given = [one.run.values.get(node.name) for node in part.outputs]
                compute = partial(Computing.in_a_row, steps=part.steps, wanted=part.outputs)
                yield name, _Row(part.steps, part.outputs, given, lambda own, mode: compute(own, mode=mode))  # noqa: B023
        if scope.name in failed:
            given, _ = one.given_alone()
            yield scope.name, _Row(one.plan.steps, scope.outputs, given, one.outputs)

    def _why_right(self, row: _Row) -> str | None:
        if not (chosen := self._chosen(row)):
            return None
        own, wide, coarse = (
            self._computed(row, chosen, mode) for mode in (as_it_is, in_float64, as_class(self.arithmetic))
        )
        if own is None or wide is None or coarse is None or not own.settled.others:
            return None
        if not _are_as_good(own.settled, wide.settled, coarse.settled):
            return None
        given = zip(row.outputs, row.candidates, own.outputs, wide.outputs, coarse.outputs, strict=True)
        if not all(self._is_right(node, *values) for node, *values in given):
            return None
        return (
            f"it is right given what the backend chose: {counted(own.settled.others, 'element')} that eager PyTorch "
            f"does not choose, each as good in the class of arithmetic {self.arithmetic.name}"
        )

    def _is_right(
        self, node: torch.fx.Node, candidate: Tensor | None, own: Any, true: Any, coarse: Any
    ) -> bool:
        return candidate is not None and is_right(self.rules, node.name, candidate, own, true, coarse)

    def _chosen(self, row: _Row) -> dict[str, Tensor]:
        """By the node of each operation that chooses, what the backend chose, as far as that is known."""
        known = {
            node: given for node, given in zip(row.outputs, row.candidates, strict=True) if given is not None
        }
        found = {}
        for step in row.steps:
            if (node := choice_of(step)) is not None:
                given = known.get(node, self.one.run.values.get(node.name))
                if given is not None:
                    found[step.node.name] = given
        return found

    def _computed(self, row: _Row, chosen: Mapping[str, Tensor], mode: Mode) -> _Run | None:
        settled = Settled(chosen)
        computing = replace(self.one.computing, settle=settled)
        outputs = attempt(lambda how: row.compute(computing, how), mode)
        return None if outputs is None else _Run(outputs, settled)


class _Run(NamedTuple):
    outputs: list[Any]
    settled: Settled


def _are_as_good(own: Settled, wide: Settled, coarse: Settled) -> bool:
    """Whether all that was chosen is, by the truth, as good as what it was chosen from lets one tell."""
    for node, deficit in wide.deficits.items():
        others = [int((wide.own[node] != one).sum()) for one in (own.own[node], coarse.own[node])]
        if (
            int((wide.own[node] != wide.chosen[node].to(deficit.device)).sum())
            > MULTIPLE * max(others) + FEWEST
        ):
            return False
        runs = own.operands[node], wide.operands[node], coarse.operands[node]
        slack = sum(_limit(*sides) for sides in zip(*runs, strict=True))
        if not bool((deficit <= slack).all()):  # False for NaN.
            return False
    return True


def _limit(own: Tensor, true: Tensor, coarse: Tensor) -> float:
    """How far from the truth a value may be that is right."""
    step = rounding_step(name_of(own.dtype)) * _largest(true)
    return MULTIPLE * max(step, *(_largest(widened(one) - true) for one in (own, coarse)))


def _largest(values: Tensor) -> float:
    return float(values.nan_to_num(0.0, 0.0, 0.0).abs().max()) if values.numel() else 0.0


def _arguments(node: torch.fx.Node, value_of: ValueOf) -> dict[str, Any]:
    args, kwargs = (torch.fx.node.map_arg(one, value_of) for one in (node.args, node.kwargs))
    func: Any = node.target
    return bound(func, args, kwargs)  # type: ignore[arg-type]


def _is_float(side: Any) -> bool:
    return isinstance(side, Tensor) and side.is_floating_point()
