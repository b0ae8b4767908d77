"""Which rule judges which value. One report may hold several rules: by dtype, by how a weight is stored."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from torchport.errors import UsageError
from torchport.parity.tolerance import Drift, Fixed, NoiseFloor, Rule


class Judged(NamedTuple):
    """What is known of a value before it is judged."""

    key: str
    golden_dtype: str
    candidate_dtype: str


Choice = Callable[[Judged], Rule]


@dataclass(frozen=True)
class RuleBook:
    """`own` chooses the rule for what a layer computes by itself, `chained` for what has added up on the way."""

    name: str
    """What a report calls the rule by which most values are judged."""
    own: Choice
    chained: Choice

    @classmethod
    def of(cls, own: Rule, chained: Rule) -> RuleBook:
        """One rule for all own errors, one for all chained ones."""
        return cls(own.name, lambda value: own, lambda value: chained)


NOISE_FLOOR = RuleBook.of(NoiseFloor(), Drift())


def fixed_rule(rtol: float | None, atol: float | None) -> Fixed | None:
    """The tolerances that a user gave, of which one left out is 0; None if neither was given."""
    for label, value in (("rtol", rtol), ("atol", atol)):
        is_a_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_a_number and 0 <= value < math.inf):
            message = f"[[{label}]] is {value!r}"
            raise UsageError("TP0801", message, fix="Give a number that is not negative.")
    return None if rtol is None and atol is None else Fixed(rtol=rtol or 0.0, atol=atol or 0.0)


def rules_for(rtol: float | None, atol: float | None) -> RuleBook:
    """The noise floor, unless a user gave tolerances; these then hold for own and for chained errors."""
    rule = fixed_rule(rtol, atol)
    return NOISE_FLOOR if rule is None else RuleBook.of(rule, rule)
