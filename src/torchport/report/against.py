"""The comparison of two runs: what got worse, what got better, which layers came and which went.

In: the reports of an earlier and a later run of one model. Out: a `Change`, which `--json` prints as it is.

Worse is a verdict that is further from a pass, a layer that fails and did not before, a failing layer whose error has
grown, and an operation that nothing maps any more. Errors that grow within their limits are listed and are not worse:
the rule that judged them lets them pass.
"""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, computed_field

from torchport.errors import ReportError
from torchport.parity import dtypes
from torchport.parity.result import Layer, Measured
from torchport.report import phrases
from torchport.runs.report import Report, Status
from torchport.targets.base import Todo

FACTOR = 2.0
"""Errors that differ by less are taken to be the same."""
_FROM_A_PASS: dict[Status, int] = {"pass": 0, "fail": 1, "unsupported": 2, "error": 2}


class RunSummary(BaseModel):
    """One of the two runs, in short."""

    model_config = ConfigDict(frozen=True)

    status: Status
    model: str
    target: str
    rule: str | None
    culprit: str | None
    layers: int
    failed: int
    drifts: bool | None
    """Whether the error that has reached the outputs is too large; None if there is none to judge."""
    todos: int
    seconds: float | None
    """The seconds of all steps together, or None if no step was timed."""

    @classmethod
    def of(cls, report: Report) -> Self:
        taken = list(report.seconds.values())
        return cls(
            status=report.status,
            model=report.model,
            target=report.target,
            rule=report.rule,
            culprit=None if report.first_divergence is None else report.first_divergence.layer,
            layers=len(report.layers),
            failed=sum(layer.fails for layer in report.layers),
            drifts=None if report.outputs is None else report.outputs.passed is not True,
            todos=len(report.todos),
            seconds=round(sum(taken), 3) if taken else None,
        )


class Turned(BaseModel):
    """A layer whose verdict has changed, or that is new and fails."""

    model_config = ConfigDict(frozen=True)

    layer: str
    type: str
    source: str | None
    reason: str | None
    """Why it fails, or failed."""


class Moved(BaseModel):
    """An error that has grown or shrunk by more than the factor."""

    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")

    layer: str
    kind: Literal["own", "chained"]
    unit: Literal["of limit", "max"]
    """The unit of both numbers: shares of the rule's limit or, if the two runs have no common rule, largest errors."""
    before: float
    now: float
    passed: bool | None
    """Whether the error passes now; None for one that is shown and not judged: the chained error of an inner layer."""


class Change(BaseModel):
    """The differences between two runs."""

    model_config = ConfigDict(
        frozen=True, populate_by_name=True, serialize_by_alias=True, ser_json_inf_nan="strings"
    )

    schema_version: Literal[1] = Field(default=1, alias="schema")
    factor: float = FACTOR
    before: RunSummary
    now: RunSummary
    newly_failing: tuple[Turned, ...]
    newly_passing: tuple[Turned, ...]
    grown: tuple[Moved, ...]
    shrunk: tuple[Moved, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    todos_added: tuple[Todo, ...]
    todos_done: tuple[Todo, ...]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def status(self) -> Literal["worse", "better", "same"]:
        return "worse" if self.worse else "better" if self.better else "same"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def worse(self) -> tuple[str, ...]:
        """What got worse: a sentence for all layers of which the same is true."""
        turned = {one.layer for one in self.newly_failing}
        grown = [one for one in self.grown if one.passed is False and one.layer not in turned]
        further = list({one.layer: one for one in reversed(grown)}.values())[::-1]
        return (
            *self._verdict(_distance(self.now) > _distance(self.before)),
            *self._outputs(False, True, "the outputs drift too far, and did not before"),
            *self._turned_to_fail("passed"),
            *self._turned_to_fail("is new"),
            *_together(
                [one.layer for one in further],
                f"{{}} fails and is further off than before{_of_one(further)}",
                "{} layers fail and are further off than before: {}",
            ),
            *(f"nothing maps {todo.op} in {todo.layer}: {todo.reason}" for todo in self.todos_added),
        )

    @computed_field  # type: ignore[prop-decorator]
    @property
    def better(self) -> tuple[str, ...]:
        """What got better: a sentence for all layers of which the same is true."""
        return (
            *self._verdict(_distance(self.now) < _distance(self.before)),
            *self._outputs(True, False, "the outputs no longer drift too far"),
            *_together(
                [one.layer for one in self.newly_passing],
                "{} failed and passes",
                "{} layers failed and pass: {}",
            ),
            *self._nearer(),
            *(f"{todo.op} in {todo.layer} is mapped or gone" for todo in self.todos_done),
        )

    def to_json(self, indent: int | None = 2) -> str:
        return self.model_dump_json(indent=indent)

    def _nearer(self) -> tuple[str, ...]:
        """The layers that still fail, but are less far off."""
        shrunk = {one.layer: one for one in self.shrunk if one.passed is False}
        return _together(
            list(shrunk),
            f"{{}} fails and is less far off than before{_of_one(list(shrunk.values()))}",
            "{} layers fail and are less far off than before: {}",
        )

    def _turned_to_fail(self, was: str) -> tuple[str, ...]:
        """The layers that fail and did not before, because they passed or because they were not there."""
        found = [one for one in self.newly_failing if self._was(one.layer) == was]
        alone = f": {found[0].reason}" if found else ""
        several = "are new" if was == "is new" else was
        return _together(
            [one.layer for one in found],
            f"{{}} {was} and fails{alone}",
            f"{{}} layers {several} and fail: {{}}",
        )

    def _verdict(self, applies: bool) -> tuple[str, ...]:
        return (f"the verdict was {self.before.status} and is {self.now.status}",) * applies

    def _outputs(self, before: bool, now: bool, sentence: str) -> tuple[str, ...]:
        return (sentence,) * ((self.before.drifts, self.now.drifts) == (before, now))

    def _was(self, layer: str) -> str:
        return "is new" if layer in self.added else "passed"


def _of_one(errors: list[Moved]) -> str:
    """How far the error of a layer has moved, if there is no other."""
    return f": {errors[0].kind} error {moved(errors[0])}" if len(errors) == 1 else ""


def _together(layers: list[str], one: str, several: str) -> tuple[str, ...]:
    """A sentence on one layer, or one on several of which the same is true."""
    if len(layers) < 2:
        return tuple(one.replace("{}", layer, 1) for layer in layers)
    return (several.replace("{}", str(len(layers)), 1).replace("{}", phrases.named(layers), 1),)


def moved(one: Moved) -> str:
    """Both numbers with their unit, as text."""
    before, now = phrases.number(one.before), phrases.number(one.now)
    return f"{before} -> {now} {one.unit}" if one.unit == "of limit" else f"{one.unit} {before} -> {now}"


def compare_runs(before: Report, now: Report) -> Change:
    """The changes from `before` to `now`; raises a ReportError if the two have nothing in common."""
    old = {layer.name: layer for layer in before.layers}
    new = {layer.name: layer for layer in now.layers}
    pairs = [(old[name], new[name]) for name in new if name in old]
    _must_be_comparable(before, now, bool(pairs))
    # If one of the two was never run, its layers are not known, so none are said to have come or gone.
    added = [layer for name, layer in new.items() if name not in old] if old else []
    removed = [name for name in old if name not in new] if new else []
    errors = [error for pair in pairs for error in _errors(*pair)]
    failing = [is_now for was, is_now in pairs if was.passed and not is_now.passed]
    return Change(
        before=RunSummary.of(before),
        now=RunSummary.of(now),
        newly_failing=tuple(_turned(layer) for layer in (*failing, *added) if not layer.passed),
        newly_passing=tuple(_turned(was) for was, is_now in pairs if is_now.passed and not was.passed),
        grown=tuple(error for error in errors if error.now > FACTOR * error.before),
        shrunk=tuple(error for error in errors if error.before > FACTOR * error.now),
        added=tuple(layer.name for layer in added),
        removed=tuple(removed),
        todos_added=_missing_from(before, now.todos),
        todos_done=() if now.status == "error" else _missing_from(now, before.todos),
    )


def _must_be_comparable(before: Report, now: Report, in_common: bool) -> None:
    one_did_not_run = not (before.layers and now.layers)
    if in_common or (one_did_not_run and before.model == now.model):
        return
    reason = "were both not run" if not (before.layers or now.layers) else "have no layer in common"
    message = f"the runs of {before.model} (before) and {now.model} (now) {reason}"
    raise ReportError("TP0342", message, fix="Give two runs of one model.")


def _distance(side: RunSummary) -> int:
    return _FROM_A_PASS[side.status]


def _turned(layer: Layer) -> Turned:
    return Turned(layer=layer.name, type=layer.type, source=layer.source, reason=layer.reason)


def _missing_from(other: Report, todos: tuple[Todo, ...]) -> tuple[Todo, ...]:
    """The TODOs that the other report does not have. Source lines do not count, because they may have moved."""
    known = {(todo.op, todo.layer) for todo in other.todos}
    return tuple(todo for todo in todos if (todo.op, todo.layer) not in known)


def _errors(was: Layer, is_now: Layer) -> list[Moved]:
    """The own and the chained error of a layer, before and now."""
    pair = _error(is_now, "own", was.own, is_now.own), _error(is_now, "chained", was.chained, is_now.chained)
    return [error for error in pair if error is not None]


def _error(
    layer: Layer, kind: Literal["own", "chained"], before: Measured | None, now: Measured | None
) -> Moved | None:
    """Both sizes of an error in one unit, or None if only one side has it, or if both are mere rounding."""
    if before is None or now is None:
        return None
    unit: Literal["of limit", "max"] = "max"
    was, is_now = _size(before), _size(now)
    if before.ratio is not None and now.ratio is not None and before.rule == now.rule:
        unit, was, is_now = "of limit", _number(before.ratio), _number(now.ratio)
    elif was <= _rounding(before) and is_now <= _rounding(now):
        return None
    passed = layer.passed if kind == "own" else now.passed
    return Moved(layer=layer.name, kind=kind, unit=unit, before=was, now=is_now, passed=passed)


def _number(ratio: float) -> float:
    return math.inf if math.isnan(ratio) else ratio


def _size(measured: Measured) -> float:
    """The largest error; infinite for an error that no rule lets pass, such as a NaN on one side only."""
    hopeless = measured.incomparable or measured.nan_mismatches or measured.inf_mismatches
    if hopeless or measured.ratio == math.inf:
        return math.inf
    # If no element is finite and NaN and Inf are at the same places in both, there is no error to measure.
    return 0.0 if math.isnan(measured.max_abs) else measured.max_abs


def _rounding(measured: Measured) -> float:
    """One rounding step at the scale of the tensor: changes of smaller errors are not reported."""
    dtype = dtypes.by_name(measured.golden_dtype)
    if dtypes.class_of(dtype) in ("bool", "int") or math.isnan(measured.golden_max):
        return 0.0
    return dtypes.rounding_step(dtype) * measured.golden_max
