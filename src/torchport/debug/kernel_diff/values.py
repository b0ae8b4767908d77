"""The values of a comparison: each call's are judged once they are computed, and kept only if one is out of bounds."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

from torchport.candidates.stored_tensors import Scratch
from torchport.parity.judge import judge_by
from torchport.parity.rulebook import RuleBook
from torchport.parity.values import Remembered, remember, rule_for
from torchport.trace.reading import in_a_row
from torchport.trace.residual import residual

Store = MutableMapping[str, Tensor]


class Value(NamedTuple):
    key: str
    candidate: Tensor
    own: Tensor
    """What the reference gives from the inputs that the backend had."""
    truth: Tensor | None
    """The same in float64."""
    golden: Tensor | None = None
    """What the reference gives from the inputs of the graph; None for the same as `own`."""


@dataclass
class Values:
    """The verdicts on the values of all calls, those values that are looked at again, and why some are not there."""

    candidate: Store
    own_golden: Store
    distances: Store
    golden: Store
    rules: RuleBook
    has_pictures: bool = False
    """Whether what is right has a picture, too."""
    remembered: dict[str, Remembered] = field(default_factory=dict)
    """By key, the verdicts on values that were judged."""
    uncompared: dict[str, str] = field(default_factory=dict)
    """By call, why it is not compared."""
    reasons: dict[str, str] = field(default_factory=dict)
    """By key, why the backend gave no value that can be compared."""
    truths: dict[str, str] = field(default_factory=dict)
    """By call, which of its operations have no kernel in float64, and how they were computed for the truth."""

    @classmethod
    def within(cls, scratch: Scratch, rules: RuleBook, *, has_pictures: bool) -> Values:
        candidate, own_golden, distances, golden = (scratch.store() for _ in range(4))
        return cls(candidate, own_golden, distances, golden, rules, has_pictures)

    def judge(self, values: Sequence[Value]) -> bool:
        """Whether all values of a call are right; if not, they are kept."""
        found = {one.key: self._remembered(one) for one in values}
        self.remembered |= found
        if all(one.own.passed for one in found.values()):
            return True
        for one in values:
            self.keep(one)
        return False

    def keep(self, value: Value) -> None:
        self.candidate[value.key] = value.candidate
        self.keep_golden(value.key, value.own, value.golden)
        if (distance := _distance(value)) is not None:
            self.distances[value.key] = distance

    def keep_golden(self, key: str, own: Tensor, golden: Tensor | None = None) -> None:
        """What was expected where the backend gave nothing that can be compared."""
        self.own_golden[key] = own
        self.golden[key] = own if golden is None else golden

    def _remembered(self, value: Value) -> Remembered:
        own = in_a_row(value.own)
        golden = own if value.golden is None else in_a_row(value.golden)
        return remember(
            self.rules,
            value.key,
            in_a_row(value.candidate),
            own,
            _distance(value),
            golden,
            has_picture=self.has_pictures,
        )


def is_right(
    rules: RuleBook, key: str, candidate: Tensor, own: Tensor, truth: Tensor, coarser: Tensor | None
) -> bool:
    """Whether a value is right beside what was computed in other circumstances than those of its row."""
    given, expected = candidate.cpu(), own.cpu()
    rule = rule_for(rules.own, key, expected, given)
    return judge_by(rule, expected, given, residual(own, truth), coarser)[1].passed


def _distance(value: Value) -> Tensor | None:
    return None if value.truth is None else residual(value.own, value.truth)
