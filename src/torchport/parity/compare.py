"""Comparing traces: golden against a lock-step and a chained run of the port, call by call.

In lock-step every call works on golden inputs, so what is wrong with a value is the doing of the
code that computed it. An output was computed by the call itself. An input that is nobody's output
was computed by the calling (parent) call between its calls, and counts as the parent's own error.
The culprit is the first wrong value in the order of execution: entering a call shows its inputs,
leaving it shows its operations and outputs.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import torch

from torchport.parity.finding import Finding, failure_of, missing, vacuous, worst
from torchport.parity.metrics import Metrics
from torchport.parity.operations import operations_by_call
from torchport.parity.picture import Picture, draw
from torchport.parity.result import Divergence, Layer, Measured, Parity
from torchport.parity.rulebook import NOISE_FLOOR, Choice, RuleBook
from torchport.parity.values import Remembered, judge_value, rule_for
from torchport.trace.plan import Call, Event, checked_events
from torchport.trace.reading import Trace
from torchport.trace.residual import residual

USUAL = "tolerances of assert_close (no float64 truth)"


Values = Mapping[str, torch.Tensor]


class Again(NamedTuple):
    """What the reference computes when it is run again in other ways, by key. Each may lack any value."""

    coarser: Values = MappingProxyType({})
    """In the candidate's arithmetic, from golden inputs."""
    ends: Values = MappingProxyType({})
    """The outputs of the whole model in float64."""
    coarser_ends: Values = MappingProxyType({})
    """The outputs of the whole model in the candidate's arithmetic."""


class _Traces(NamedTuple):
    golden: Trace
    own_golden: Trace
    truth: Trace | None
    lockstep: Trace
    chained: Trace


def compare_traces(
    golden: Path | Trace,
    lockstep: Path | Trace,
    chained: Path | Trace,
    *,
    calls: Iterable[Call],
    events: Iterable[Event],
    truth: Path | Trace | None = None,
    rules: RuleBook = NOISE_FLOOR,
    judged: Callable[[Layer], None] | None = None,
    operations: Mapping[str, Sequence[str]] | None = None,
    again: Again | None = None,
    pictures: bool = True,
    own_golden: Path | Trace | None = None,
    remembered: Mapping[str, Remembered] = MappingProxyType({}),
) -> Parity:
    """Judge every call of a port by its own error, and the model's outputs by the chained error.

    `calls` are in the order in which they end, `events` in the order of execution. `rules` chooses the
    rule for each value. `judged` is called with each layer as soon as it is judged. `operations` lists
    the operations of a call in the order of execution, for traces that hold them. `again` has what the
    reference computes when it is run again in other ways. Without `pictures`, only layers that fail have one.
    `own_golden` has what own errors are measured against, if that is not `golden`: what the reference computes from the
    inputs that each call of the candidate had, if it could not be handed golden ones. `truth` is then of these values.
    `remembered` has the verdicts on values that were judged before, by key: the traces need not have these, but for
    those that are in `again`.
    """
    with ExitStack() as stack:

        def opened(trace: Path | Trace) -> Trace:
            return stack.enter_context(Trace(trace)) if isinstance(trace, Path) else trace

        traces = _Traces(
            golden=opened(golden),
            own_golden=opened(golden if own_golden is None else own_golden),
            truth=None if truth is None else opened(truth),
            lockstep=opened(lockstep),
            chained=opened(chained),
        )
        return _Comparison(
            traces, list(calls), rules, judged, operations or {}, again or Again(), pictures, remembered
        ).run(events)


class _Comparison:
    def __init__(
        self,
        traces: _Traces,
        calls: Sequence[Call],
        rules: RuleBook,
        judged: Callable[[Layer], None] | None,
        operations: Mapping[str, Sequence[str]],
        again: Again,
        pictures: bool,
        remembered: Mapping[str, Remembered],
    ) -> None:
        self.remembered = remembered
        self.traces, self.judged, self.again, self.pictures = traces, judged, again, pictures
        self.calls = {call.name: call for call in calls}
        self.rules = rules
        self.own: dict[str, list[Finding]] = defaultdict(list)
        self.chained: dict[str, list[Finding]] = {}
        self.layers: dict[str, Layer] = {}
        self.culprit: tuple[str, Finding] | None = None
        self.of_golden: dict[tuple[str, float | None, float | None], Metrics] = {}
        """What was measured of the values of a call that are golden tensors themselves, by key and tolerances."""
        self.nodes = operations_by_call(traces.own_golden, traces.lockstep, calls, operations)

    def run(self, events: Iterable[Event]) -> Parity:
        for kind, name in checked_events(events, self.calls):
            if kind == "enter":
                self._enter(self.calls[name])
            else:
                self._leave(self.calls[name])
        outputs = [
            finding
            for call in self.calls.values()
            if call.parent is None
            for finding in self.chained[call.name]
        ]
        divergence = self._divergence(outputs)
        compared = sum(finding.is_evidence for found in self.own.values() for finding in found)
        proven = compared > 0 and any(finding.is_evidence for finding in outputs)
        without_truth = sum(finding.lacks_truth for found in self.own.values() for finding in found)
        return Parity(
            passed=proven and divergence is None,
            rule=USUAL if without_truth and without_truth == compared else self.rules.name,
            layers=tuple(self.layers[name] for name in self.calls),
            first_divergence=divergence,
            outputs=worst(outputs),
            compared=compared,
            without_truth=without_truth,
            proves_little=tuple(name for name in self.calls if any(f.proves_little for f in self.own[name])),
        )

    def _enter(self, call: Call) -> None:
        if (owner := self._kept_from(call)) is not None:
            reason = f"the port never came to call {call.name}"
            key = (*call.outputs, *call.inputs)[0]
            self._found(owner, Finding(call.name, "call", False, reason, None, key))
        reached = any(key in self.traces.lockstep for key in call.outputs)
        for index, key in enumerate(call.inputs):
            finding = self._measure_own(call, f"input {index} of {call.name}", key)
            if finding is None:
                continue
            if call.parent is None:
                # The model's inputs are given: right ones prove nothing, and none need be written.
                if finding.measured is not None and not finding.passed:
                    self._found(call.name, finding)
            elif finding.measured is None and reached:
                # The call came to its end, so it had this input and failed to report it.
                self._found(call.name, finding)
            else:
                self._found(call.parent, finding)

    def _kept_from(self, call: Call) -> str | None:
        """The call to blame if `call` was never made: the innermost that did not end, or else the caller.

        None if `call` was made, or if the run does not say which calls it made.
        """
        begun = self.traces.lockstep.begun
        if begun is None or call.parent is None or not call.inputs or call.name in begun:
            return None
        for one in self.calls.values():
            if (
                one.name in begun
                and one.outputs
                and not any(key in self.traces.lockstep for key in one.outputs)
            ):
                return one.name
        return call.parent

    def _leave(self, call: Call) -> None:
        for key in self.nodes.get(call.name, ()):
            operation = key.removeprefix(f"{call.name}/")
            self._found(call.name, self._measure_own(call, f"operation {operation}", key))
        for index, key in enumerate(call.outputs):
            self._found(call.name, self._measure_own(call, _output(call, index), key))
        found = self.own[call.name]
        if found and all(finding.passed and not finding.is_evidence for finding in found):
            self._found(call.name, vacuous(found[0]))
        self.chained[call.name] = [
            self._measure_chained(call, _output(call, index), key) for index, key in enumerate(call.outputs)
        ]
        self.of_golden.clear()
        self.layers[call.name] = layer = self._layer(call)
        if self.judged is not None:
            self.judged(layer)

    def _found(self, owner: str, finding: Finding | None) -> None:
        if finding is None:
            return
        self.own[owner].append(finding)
        if not finding.passed and self.culprit is None:
            self.culprit = (owner, finding)

    def _measure_own(self, call: Call, what: str, key: str) -> Finding | None:
        """The verdict on a value in lock-step, or None for an input that is another value handed on unchanged."""
        known = self.remembered.get(key)
        if known is not None and key not in self.again.coarser:
            return known.own._replace(call=call.name, what=what)
        golden, lockstep = self.traces.own_golden, self.traces.lockstep
        stored = golden.resolve(key)
        if key not in lockstep:
            golden.get(key)
            handed_on = stored != key and key not in call.outputs
            return None if handed_on else missing(call, what, key)
        truth = self.traces.truth
        distance = truth.get(stored) if truth is not None and truth.has(stored) else None
        coarser = self.again.coarser.get(key)
        pair = golden.get(key), lockstep.get(key)
        return self._judged(call, what, key, *pair, self.rules.own, distance, coarser)

    def _measure_chained(self, call: Call, what: str, key: str) -> Finding:
        chained = self.traces.chained
        known, again = self.remembered.get(key), self.again
        if known is not None and key not in again.ends and key not in again.coarser_ends:
            return known.chained._replace(call=call.name, what=what)
        stored = key if key in chained else self.traces.golden.resolve(key)
        if stored not in chained:
            return missing(call, what, key)
        end = again.ends.get(key)
        golden = self.traces.golden.get(key)
        distance = None if end is None else residual(golden, end)
        coarser = again.coarser_ends.get(key)
        pair = golden, chained.get(stored)
        return self._judged(call, what, key, *pair, self.rules.chained, distance, coarser)

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
        known = self.of_golden.get((key, rule.rtol, rule.atol)) if is_golden and distance is None else None
        finding, metrics = judge_value(rule, key, golden, candidate, distance, coarser, known)
        if is_golden and finding.passed:
            self.of_golden[key, rule.rtol, rule.atol] = metrics
        return finding._replace(call=call.name, what=what)

    def _layer(self, call: Call) -> Layer:
        found, chained = self.own[call.name], self.chained[call.name]
        own = worst(found)
        failed = [finding for finding in found if not finding.passed]
        reason = f"{failed[0].what}: {failed[0].reason}" if failed else self._nothing(call, found)
        drift = worst(chained)
        if drift is not None and call.parent is not None:
            drift = drift.model_copy(update=dict.fromkeys(("passed", "rule", "ratio", "reason"), None))
        return Layer(
            name=call.name,
            type=call.type,
            own=own,
            chained=drift,
            passed=not failed,
            reason=reason,
            source=call.source,
            rule=None if own is None else own.rule,
            parent=call.parent,
            picture=self._picture(own) if own is not None and (failed or self.pictures) else None,
            failure=failure_of(failed[0]) if failed else None,
        )

    def _picture(self, own: Measured) -> Picture | None:
        if (known := self.remembered.get(own.key)) is not None:
            return known.picture
        return draw(self.traces.own_golden.get(own.key), self.traces.lockstep.get(own.key), own.golden_max)

    def _nothing(self, call: Call, found: list[Finding]) -> str | None:
        """The reason why nothing was compared for a call, or None if something was."""
        if found:
            return None
        if not call.outputs:
            return "returns no tensor"
        return f"returns {self.traces.own_golden.resolve(call.outputs[0])} as it is"

    def _divergence(self, outputs: list[Finding]) -> Divergence | None:
        if self.culprit is not None:
            owner, finding = self.culprit
            return self._diverged(owner, finding, "own")
        if all(finding.passed for finding in outputs):
            return None
        # Every layer is right by itself, so the one to name is the first at which the drift is too large.
        for found in self.chained.values():
            for finding in found:
                if not finding.passed:
                    return self._diverged(finding.call, finding, "chained")
        raise AssertionError("an output failed, so some chained value did")

    def _diverged(self, owner: str, finding: Finding, kind: Literal["own", "chained"]) -> Divergence:
        layer = self.calls[owner]
        return Divergence(
            layer=layer.name,
            type=layer.type,
            source=layer.source,
            call=finding.call,
            what=finding.what,
            kind=kind,
            reason=finding.reason or "",
            metrics=finding.measured,
            key=finding.key,
        )


def _output(call: Call, index: int) -> str:
    return "output" if len(call.outputs) == 1 else f"output {index}"
