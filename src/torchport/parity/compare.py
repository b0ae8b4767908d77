"""Comparing traces: golden against a lock-step and a chained run of the port, call by call.

In lock-step every call works on golden inputs, so what is wrong with a value is the doing of the
code that computed it. An output was computed by the call itself. An input that is nobody's output
was computed by the calling (parent) call between its calls, and counts as the parent's own error.
The culprit is the first wrong value in the order of execution: entering a call shows its inputs,
leaving it shows its operations and outputs. What the program gives in the end comes last: it is compared with the
model's outputs once more, as something may be done to them behind the model.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from torchport.parity.calls import ExtraCall, extra_calls
from torchport.parity.drawn import NOTHING_DRAWN, Drawn
from torchport.parity.finding import (
    Finding,
    failure_of,
    too_many,
    vacuous,
    worst,
)
from torchport.parity.measuring import Again, Measuring, Traces, output_name
from torchport.parity.operations import operations_by_call
from torchport.parity.picture import Picture
from torchport.parity.result import Divergence, Layer, Measured, Parity, Program
from torchport.parity.rulebook import NOISE_FLOOR, RuleBook
from torchport.parity.values import Remembered, drawn, rule_for
from torchport.trace.plan import Call, Event, checked_events, input_key, output_key
from torchport.trace.reading import Trace

USUAL = "tolerances of assert_close (no float64 truth)"


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
    drawn: Drawn = NOTHING_DRAWN,
) -> Parity:
    """Judge every call of a port by its own error, and the model's outputs by the chained error.

    `calls` are in the order in which they end, `events` in the order of execution. `rules` chooses the
    rule for each value. `judged` is called with each layer as soon as it is judged. `operations` lists
    the operations of a call in the order of execution, for traces that hold them. `again` has what the
    reference computes when it is run again in other ways. Without `pictures`, only layers that fail have one.
    `own_golden` has what own errors are measured against, if that is not `golden`: what the reference computes from the
    inputs that each call of the candidate had, if it could not be handed golden ones. `truth` is then of these values.
    `remembered` has the verdicts on values that were judged before, by key: the traces need not have these, but for
    those that are in `again`. `drawn` are the values that are random, of which nothing can be said.
    """
    with ExitStack() as stack:

        def opened(trace: Path | Trace) -> Trace:
            return stack.enter_context(Trace(trace)) if isinstance(trace, Path) else trace

        traces = Traces(
            golden=opened(golden),
            own_golden=opened(golden if own_golden is None else own_golden),
            truth=None if truth is None else opened(truth),
            lockstep=opened(lockstep),
            chained=opened(chained),
        )
        return _Comparison(
            traces,
            list(calls),
            rules,
            judged,
            operations or {},
            again or Again(),
            pictures,
            remembered,
            drawn,
        ).run(events)


class _Comparison:
    def __init__(
        self,
        traces: Traces,
        calls: Sequence[Call],
        rules: RuleBook,
        judged: Callable[[Layer], None] | None,
        operations: Mapping[str, Sequence[str]],
        again: Again,
        pictures: bool,
        remembered: Mapping[str, Remembered],
        drawn: Drawn,
    ) -> None:
        self.remembered, self.drawn = remembered, drawn
        self.traces, self.judged, self.pictures = traces, judged, pictures
        self.measuring = Measuring(traces, rules, again, remembered, drawn)
        self.calls = {call.name: call for call in calls}
        self.rules = rules
        self.own: dict[str, list[Finding]] = defaultdict(list)
        self.chained: dict[str, list[Finding]] = {}
        self.layers: dict[str, Layer] = {}
        self.culprit: tuple[str, Finding] | None = None
        self.nodes = operations_by_call(traces.own_golden, traces.lockstep, calls, operations, drawn.shown)
        self.roots = [call for call in calls if call.parent is None]
        self.extra = self._extra_calls()

    def run(self, events: Iterable[Event]) -> Parity:
        for kind, name in checked_events(events, self.calls):
            if kind == "enter":
                self._enter(self.calls[name])
            else:
                self._leave(self.calls[name])
            self._come_to(lambda extra, at=(kind, name): extra.after == at)  # type: ignore[misc]
        own_returned, chained_returned = self._program()
        outputs = [finding for call in self.roots for finding in self.chained[call.name]]
        divergence = self._divergence(outputs, own_returned, chained_returned)
        compared = sum(finding.is_evidence for found in self.own.values() for finding in found)
        proven = compared > 0 and any(finding.is_evidence for finding in outputs)
        without_truth = sum(finding.lacks_truth for found in self.own.values() for finding in found)
        return Parity(
            passed=proven
            and divergence is None
            and not any(layer.unproven for layer in self.layers.values()),
            rule=USUAL if without_truth and without_truth == compared else self.rules.name,
            layers=tuple(self.layers[name] for name in self.calls),
            first_divergence=divergence,
            outputs=worst(chained_returned or outputs),
            program=self._as_program(own_returned, chained_returned),
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
            finding = self.measuring.own(call, f"input {index} of {call.name}", key)
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

    def _extra_calls(self) -> list[ExtraCall]:
        """The calls that only the port makes, in either run."""
        if not self.roots:
            return []
        golden, root = self.traces.golden, self.roots[0].name

        def is_known(name: str) -> bool:
            return golden.has(output_key(name, 0)) or golden.has(input_key(name, 0))

        found: dict[str, ExtraCall] = {}
        for trace in (self.traces.lockstep, self.traces.chained):
            for extra in extra_calls(trace.events or (), self.calls, root, is_known):
                found.setdefault(extra.name, extra)
        return list(found.values())

    def _come_to(self, is_here: Callable[[ExtraCall], bool]) -> None:
        """Blames the calls that are too many here on the calls that make them, unless these have been judged."""
        for extra in [one for one in self.extra if is_here(one) and one.owner not in self.layers]:
            self.extra.remove(extra)
            owner = self.calls[extra.owner]
            self._found(owner.name, too_many(owner, extra.name, extra.reason(self.calls)))

    def _leave(self, call: Call) -> None:
        self._come_to(lambda extra: extra.owner == call.name)
        for key in self.nodes.get(call.name, ()):
            operation = key.removeprefix(f"{call.name}/")
            self._found(call.name, self.measuring.own(call, f"operation {operation}", key))
        for index, key in enumerate(call.outputs):
            self._found(call.name, self.measuring.own(call, output_name(call, index), key))
        found = self.own[call.name]
        if found and all(finding.passed and not finding.is_evidence for finding in found):
            self._found(call.name, vacuous(found[0]))
        self.chained[call.name] = [
            self.measuring.chained(call, output_name(call, index), key)
            for index, key in enumerate(call.outputs)
            if key not in self.drawn.downstream
        ]
        self.measuring.forget_call()
        self.layers[call.name] = layer = self._layer(call)
        if self.judged is not None:
            self.judged(layer)

    def _found(self, owner: str, finding: Finding | None) -> None:
        if finding is None:
            return
        self.own[owner].append(finding)
        if finding.diverges and self.culprit is None:
            self.culprit = (owner, finding)

    def _program(self) -> tuple[list[Finding], list[Finding]]:
        """The verdicts on what the program gives in the end, lock-step and chained; none if the runs do not say."""
        lockstep, chained = self.traces.lockstep, self.traces.chained
        if len(self.roots) != 1 or (lockstep.returned is None and chained.returned is None):
            return [], []
        (root,) = self.roots
        return self.measuring.returned_own(root), self.measuring.returned_chained(root)

    def _as_program(self, own: list[Finding], chained: list[Finding]) -> Program | None:
        if not (own or chained):
            return None
        failed = next((finding for finding in (*own, *chained) if not finding.passed), None)
        return Program(
            passed=failed is None,
            own=worst(own),
            chained=worst(chained),
            reason=None if failed is None else f"{failed.what}: {failed.reason}",
            source=self._handed_over_at(),
        )

    def _handed_over_at(self) -> str | None:
        """The place in the program that hands its outputs over, if a run says so."""
        said = (trace.returned for trace in (self.traces.lockstep, self.traces.chained))
        return next((one.at for one in said if one is not None), None)

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
            unproven=bool(failed) and all(finding.is_nan_everywhere for finding in failed),
        )

    def _picture(self, own: Measured) -> Picture | None:
        if (known := self.remembered.get(own.key)) is not None:
            return known.picture
        pair = self.traces.own_golden.get(own.key), self.traces.lockstep.get(own.key)
        return drawn(rule_for(self.rules.own, own.key, *pair), *pair, own)

    def _nothing(self, call: Call, found: list[Finding]) -> str | None:
        """The reason why nothing was compared for a call, or None if something was."""
        if found:
            return None
        if not call.outputs:
            return "returns no tensor"
        if call.outputs[0] in self.drawn.values:
            return "gives random numbers, of which nothing can be proven"
        return f"returns {self.traces.own_golden.resolve(call.outputs[0])} as it is"

    def _divergence(
        self, outputs: list[Finding], own_returned: list[Finding], chained_returned: list[Finding]
    ) -> Divergence | None:
        if self.culprit is not None:
            owner, finding = self.culprit
            return self._diverged(owner, finding, "own")
        for finding in own_returned:
            if finding.diverges:
                return self._diverged(finding.call, finding, "returned")
        if any(finding.diverges for finding in outputs):
            # Every layer is right by itself, so the one to name is the first at which the drift is too large.
            drifted = (finding for found in self.chained.values() for finding in found if finding.diverges)
            finding = next(drifted)
            return self._diverged(finding.call, finding, "chained")
        for finding in chained_returned:
            if finding.diverges:
                return self._diverged(finding.call, finding, "returned")
        return None

    def _diverged(
        self, owner: str, finding: Finding, kind: Literal["own", "chained", "returned"]
    ) -> Divergence:
        layer = self.calls[owner]
        return Divergence(
            layer=layer.name,
            type=layer.type,
            source=self._handed_over_at() if kind == "returned" else layer.source,
            call=finding.call,
            what=finding.what,
            kind=kind,
            reason=finding.reason or "",
            metrics=finding.measured,
            key=finding.key,
        )
