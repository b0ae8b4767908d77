"""Values of a candidate measured against the golden ones and judged: own errors in lock-step, chained errors, and what
the program gives in the end.

In: the traces of a comparison and the rules. Out: findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import torch

from torchport.parity import dtypes
from torchport.parity.finding import (
    Finding,
    elements_of,
    lacks_truth_of,
    missing,
    proves_little,
)
from torchport.parity.judge import judge_by
from torchport.parity.metrics import Metrics
from torchport.parity.result import Measured
from torchport.parity.rulebook import Choice, Judged, RuleBook
from torchport.parity.tolerance import NoiseFloor
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

    def __init__(self, traces: Traces, rules: RuleBook, again: Again) -> None:
        self.traces, self.rules, self.again = traces, rules, again
        self._of_golden: dict[tuple[str, float | None, float | None], Metrics] = {}
        """What was measured of the values of a call that are golden tensors themselves, by key and tolerances."""

    def forget_call(self) -> None:
        """What was measured of a call's values is not asked for again."""
        self._of_golden.clear()

    def own(self, call: Call, what: str, key: str) -> Finding | None:
        """The verdict on a value in lock-step, or None for an input that is another value handed on unchanged."""
        golden, lockstep = self.traces.own_golden, self.traces.lockstep
        stored = golden.resolve(key)
        if key not in lockstep:
            golden.get(key)
            handed_on = stored != key and key not in call.outputs
            return None if handed_on else missing(call, what, key)
        pair = golden.get(key), lockstep.get(key)
        more = self._from_truth(key), self.again.coarser.get(key)
        return self._judged(call, what, key, *pair, self.rules.own, *more)

    def chained(self, call: Call, what: str, key: str) -> Finding:
        chained = self.traces.chained
        stored = key if key in chained else self.traces.golden.resolve(key)
        if stored not in chained:
            return missing(call, what, key)
        pair = self.traces.golden.get(key), chained.get(stored)
        more = self._from_end(key), self.again.coarser_ends.get(key)
        return self._judged(call, what, key, *pair, self.rules.chained, *more)

    def returned_own(self, root: Call) -> list[Finding]:
        """The verdicts on what the program gives if its model has given golden outputs."""
        return self._returned(root, self.traces.lockstep, self.rules.own, self._from_truth, {})

    def returned_chained(self, root: Call) -> list[Finding]:
        """The verdicts on what the program gives to its users."""
        coarser = self.again.coarser_ends
        return self._returned(root, self.traces.chained, self.rules.chained, self._from_end, coarser)

    def _returned(
        self,
        root: Call,
        trace: Trace,
        choose: Choice,
        distance_of: Callable[[str], torch.Tensor | None],
        coarser: Values,
    ) -> list[Finding]:
        number = 0 if trace.returned is None else trace.returned.number
        if number != len(root.outputs):
            reason = f"the program gives {number} tensors in the end, and the model {len(root.outputs)}"
            return [Finding(root.name, "the outputs of the program", False, reason, None, None)]
        found = []
        for index, key in enumerate(root.outputs):
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
        rule = choose(Judged(key, dtypes.name_of(golden.dtype), dtypes.name_of(candidate.dtype)))
        is_golden = golden is candidate
        known = self._of_golden.get((key, rule.rtol, rule.atol)) if is_golden and distance is None else None
        metrics, verdict = judge_by(rule, golden, candidate, distance, coarser, known)
        if is_golden and verdict.passed:
            self._of_golden[key, rule.rtol, rule.atol] = metrics
        elements = elements_of(golden, candidate, distance, metrics, verdict)
        is_somewhere = elements is not None and elements.common
        reason = f"{verdict.reason}: {elements}" if is_somewhere else verdict.reason
        measured = Measured(
            **vars(metrics),
            key=key,
            passed=verdict.passed,
            rule=verdict.rule,
            ratio=verdict.ratio,
            reason=reason,
            elements=elements,
        )
        by_noise = isinstance(rule, NoiseFloor)
        lacks_truth, little = by_noise and lacks_truth_of(metrics), by_noise and proves_little(metrics)
        return Finding(call.name, what, verdict.passed, reason, measured, key, lacks_truth, little)


def output_name(call: Call, index: int) -> str:
    return "output" if len(call.outputs) == 1 else f"output {index}"
