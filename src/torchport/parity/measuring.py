"""Values of a candidate measured against the golden ones and judged: own errors in lock-step, chained errors, and what
the program gives in the end.

In: the traces of a comparison and the rules. Out: findings.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch

from torchport.parity.drawn import Drawn
from torchport.parity.finding import Finding, missing, of_another_kind
from torchport.parity.metrics import Metrics
from torchport.parity.rulebook import Choice, RuleBook
from torchport.parity.values import Remembered, judge_value, rule_for
from torchport.trace.plan import Call, returned_key
from torchport.trace.reading import Trace
from torchport.trace.residual import residual

Values = Mapping[str, torch.Tensor]


class Again(NamedTuple):
    """What the reference computes when it is run again in other ways, by key. Each may lack any value."""

    coarser: Values = MappingProxyType({})
    """In the candidate's arithmetic, from golden inputs."""
    ends: Values = MappingProxyType({})
    """The outputs of the whole model in float64."""
    coarser_ends: Values = MappingProxyType({})
    """The outputs of the whole model in the candidate's arithmetic."""


class Traces(NamedTuple):
    golden: Trace
    own_golden: Trace
    truth: Trace | None
    lockstep: Trace
    chained: Trace


class Measuring:
    """Judges single values of the traces, by the rule for each."""

    def __init__(
        self,
        traces: Traces,
        rules: RuleBook,
        again: Again,
        remembered: Mapping[str, Remembered],
        drawn: Drawn,
    ) -> None:
        self.drawn = drawn
        self.traces, self.rules, self.again, self.remembered = traces, rules, again, remembered
        self._of_golden: dict[tuple[str, float | None, float | None], Metrics] = {}
        """What was measured of the values of a call that are golden tensors themselves, by key and tolerances."""

    def forget_call(self) -> None:
        """What was measured of a call's values is not asked for again."""
        self._of_golden.clear()

    def own(self, call: Call, what: str, key: str) -> Finding | None:
        """The verdict on a value in lock-step.

        None for an input that is another value handed on unchanged, and for random numbers, unless they are of another
        shape or dtype.
        """
        known = self.remembered.get(key)
        if known is not None and key not in self.again.coarser:
            return known.own._replace(call=call.name, what=what)
        golden, lockstep = self.traces.own_golden, self.traces.lockstep
        stored = golden.resolve(key)
        if key not in lockstep:
            golden.get(key)
            handed_on = stored != key and key not in call.outputs
            return None if handed_on else missing(call, what, key)
        pair = golden.get(key), lockstep.get(key)
        if key in self.drawn.values:
            return of_another_kind(call, what, key, *pair)
        more = self._from_truth(key), self.again.coarser.get(key)
        return self._judged(call, what, key, *pair, self.rules.own, *more)

    def chained(self, call: Call, what: str, key: str) -> Finding:
        chained, again = self.traces.chained, self.again
        known = self.remembered.get(key)
        if known is not None and key not in again.ends and key not in again.coarser_ends:
            return known.chained._replace(call=call.name, what=what)
        stored = key if key in chained else self.traces.golden.resolve(key)
        if stored not in chained:
            return missing(call, what, key)
        pair = self.traces.golden.get(key), chained.get(stored)
        more = self._from_end(key), again.coarser_ends.get(key)
        return self._judged(call, what, key, *pair, self.rules.chained, *more)

    def returned_own(self, root: Call) -> list[Finding]:
        """The verdicts on what the program gives if its model has given golden outputs."""
        return self._returned(root, self.traces.lockstep, self.rules.own, self._from_truth, {})

    def returned_chained(self, root: Call) -> list[Finding]:
        """The verdicts on what the program gives to its users."""
        coarser, random = self.again.coarser_ends, self.drawn.downstream
        return self._returned(root, self.traces.chained, self.rules.chained, self._from_end, coarser, random)

    def _returned(
        self,
        root: Call,
        trace: Trace,
        choose: Choice,
        distance_of: Callable[[str], torch.Tensor | None],
        coarser: Values,
        left_out: Collection[str] = (),
    ) -> list[Finding]:
        number = 0 if trace.returned is None else trace.returned.number
        if number != len(root.outputs):
            reason = f"the program gives {number} tensors in the end, and the model {len(root.outputs)}"
            return [Finding(root.name, "the outputs of the program", False, reason, None, None)]
        found = []
        for index, key in enumerate(root.outputs):
            if key in left_out:
                continue
            given = returned_key(root.name, index)
            pair = self.traces.golden.get(key), trace.get(given)
            what = f"{output_name(root, index)} of the program"
            more = distance_of(key), coarser.get(key)
            found.append(self._judged(root, what, given, *pair, choose, *more))
        return found

    def _from_truth(self, key: str) -> torch.Tensor | None:
        """How far the golden value is from the truth, if that is known."""
        truth, stored = self.traces.truth, self.traces.own_golden.resolve(key)
        return truth.get(stored) if truth is not None and truth.has(stored) else None

    def _from_end(self, key: str) -> torch.Tensor | None:
        """How far the golden value is from what the whole model computes in float64, if that is known."""
        end = self.again.ends.get(key)
        return None if end is None else residual(self.traces.golden.get(key), end)

    def _judged(
        self,
        call: Call,
        what: str,
        key: str,
        golden: torch.Tensor,
        candidate: torch.Tensor,
        choose: Choice,
        distance: torch.Tensor | None,
        coarser: torch.Tensor | None,
    ) -> Finding:
        rule = rule_for(choose, key, golden, candidate)
        is_golden = golden is candidate
        known = self._of_golden.get((key, rule.rtol, rule.atol)) if is_golden and distance is None else None
        finding, metrics = judge_value(rule, key, golden, candidate, distance, coarser, known)
        if is_golden and finding.passed:
            self._of_golden[key, rule.rtol, rule.atol] = metrics
        return finding._replace(call=call.name, what=what)


def output_name(call: Call, index: int) -> str:
    return "output" if len(call.outputs) == 1 else f"output {index}"
