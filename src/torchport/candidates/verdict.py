"""From the values of a comparison to its report: the traces are written, compared, and completed in plain words."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.candidates.collecting import older_objects_left_alone
from torchport.candidates.golden import GoldenPlan
from torchport.candidates.probing import WatchedCall
from torchport.errors import TorchportError
from torchport.events import Steps
from torchport.explain.explanation import Explained, explained_if_possible
from torchport.parity.result import Divergence, Layer, Measured, Parity
from torchport.parity.rulebook import NOISE_FLOOR, RuleBook
from torchport.runs.folder import RunFile, RunFolder
from torchport.runs.report import Report
from torchport.runs.verdict import Emulate, Reference, RunTraces, compare_run, written
from torchport.trace.reading import HeldTrace
from torchport.trace.writing import form_in_file, write_tensors

TARGET = "torch"


@dataclass
class Comparison:
    """What was computed, and what is known about it that the traces do not tell."""

    plan: GoldenPlan
    golden: Mapping[str, Tensor]
    """What the candidate is measured against, by the key of its own."""
    chained: Mapping[str, Tensor]
    uncompared: list[Layer]
    order: list[str]
    """The names of all layers, compared or not, as they are listed."""
    distances: Mapping[str, Tensor] = field(default_factory=dict)
    """From each golden value to what the reference computes in float64 from golden inputs; empty if it cannot."""
    lockstep: Mapping[str, Tensor] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """By key, why there is no value where the other side has one."""
    labels: dict[str, str] = field(default_factory=dict)
    """By key, what the value is, where it is neither input nor output of a call."""
    notes: dict[str, str] = field(default_factory=dict)
    """By layer, what of it is not compared, and why."""
    given_otherwise: Mapping[str, str] = field(default_factory=dict)
    """By layer, which of its arguments that are no tensors are not those of the reference."""
    remarks: tuple[str, ...] = ()
    """What is true of the comparison as a whole, and a user should know."""
    precision: str | None = None
    """The dtype of a candidate that is coarser than the reference, which was then measured in it."""
    stopped: TorchportError | None = None
    """The error at which the lock-step run ended before its time."""
    emulate: Emulate | None = None
    """What the reference computes in a class of arithmetic; None where no noise floor is measured."""
    ends: Callable[[], Mapping[str, Tensor]] = dict
    """The outputs of the whole reference in float64, by key."""
    emulate_all: Callable[[Arithmetic], Mapping[str, Tensor]] = lambda _: {}
    """The outputs of the whole reference in a class of arithmetic, by key."""
    subject: Explained | None = None
    """What is looked into for the cause of a difference."""


def not_compared(call: WatchedCall, why: str) -> Layer:
    return Layer(
        name=call.name,
        type=call.type,
        own=None,
        chained=None,
        passed=True,
        reason=why,
        source=call.source,
        parent=call.parent,
        uncompared=why,
    )


def judge(
    comparison: Comparison,
    name: str,
    rules: RuleBook,
    arithmetic: Arithmetic,
    out: Path | None,
    steps: Steps,
) -> Report:
    """The report, which is written to `out` with the traces, or to nowhere."""
    about = RunFile(name=name, target=TARGET)
    if out is not None:
        return _judge(comparison, RunFolder(out, about), rules, arithmetic, steps, keep=True)
    with tempfile.TemporaryDirectory(prefix="torchport-") as folder:
        return _judge(comparison, RunFolder(Path(folder), about), rules, arithmetic, steps, keep=False)


def _judge(
    comparison: Comparison,
    files: RunFolder,
    rules: RuleBook,
    arithmetic: Arithmetic,
    steps: Steps,
    *,
    keep: bool,
) -> Report:
    plan = comparison.plan
    if keep:
        _write_traces(comparison, files)
    emulate = comparison.emulate
    whole = comparison.ends, comparison.emulate_all
    reference = None if emulate is None else Reference(arithmetic, emulate, *whole)
    with older_objects_left_alone():
        parity = compare_run(
            files, plan, rules, steps, reference=reference, traces=_held(comparison), pictures=keep
        )
    if rules is NOISE_FLOOR and comparison.precision is not None:
        parity = parity.model_copy(update={"rule": f"{parity.rule} in {comparison.precision}"})
    divergence = parity.first_divergence
    if comparison.stopped is not None and (divergence is None or divergence.metrics is None):
        raise comparison.stopped
    completed = _completed(parity, comparison)
    report = Report.of_parity(completed, target=TARGET, model=files.name, seconds=steps.seconds)
    report = report.model_copy(update={"notes": (*report.notes, *comparison.remarks)})
    if report.passed:
        shutil.rmtree(files.snippets, ignore_errors=True)
    if comparison.subject is not None and not report.passed:
        if not keep:
            _write_traces(comparison, files)
        report = explained_if_possible(report, files, comparison.subject, steps, kept=keep)
    if not keep:
        return _without_files(report)
    files.write()
    places = {"capture": str(files.captures), "run": str(files.record("chained").parent)}
    return written(report.model_copy(update={"files": places}), files)


def _without_files(report: Report) -> Report:
    """The report without the place of what is not kept."""
    divergence = report.first_divergence
    if divergence is None:
        return report
    return report.model_copy(update={"first_divergence": divergence.model_copy(update={"snippet": None})})


def _held(comparison: Comparison) -> RunTraces:
    """The values as traces; CaptureError for one that no file could hold."""
    plan = comparison.plan
    given = comparison.golden, comparison.distances, comparison.lockstep, comparison.chained
    for values in given:
        for name in values:
            form_in_file(name, values[name])
    golden = HeldTrace("the reference", comparison.golden, plan.root, plan.aliases)
    truth, lockstep, chained = (HeldTrace("the candidate", values, plan.root) for values in given[1:])
    return RunTraces(golden, truth, lockstep, chained)


def _write_traces(comparison: Comparison, files: RunFolder) -> None:
    plan = comparison.plan
    metadata = {"schema": "1", "root": plan.root}
    write_tensors(files.captured("trace"), comparison.golden, metadata, aliases=plan.aliases)
    write_tensors(files.captured("truth"), comparison.distances, metadata)
    write_tensors(files.record("lockstep"), comparison.lockstep, metadata)
    write_tensors(files.record("chained"), comparison.chained, metadata)


def _completed(parity: Parity, comparison: Comparison) -> Parity:
    """The same with every layer of the reference in it, and with words for what has no value."""
    completed = {layer.name: _layer(layer, comparison) for layer in parity.layers}
    completed |= {layer.name: layer for layer in comparison.uncompared}
    divergence = parity.first_divergence
    return parity.model_copy(
        update={
            "layers": tuple(completed[name] for name in comparison.order),
            "first_divergence": None if divergence is None else _divergence(divergence, comparison),
        }
    )


def _divergence(divergence: Divergence, comparison: Comparison) -> Divergence:
    key = divergence.key or ""
    is_missing = divergence.metrics is None
    update = {
        "reason": _with_arguments(
            divergence.layer, _in_words(divergence.reason, key, is_missing, comparison), comparison
        ),
        "what": comparison.labels.get(key, divergence.what),
        "metrics": _measured(divergence.metrics, comparison),
    }
    return divergence.model_copy(update=update)


def _layer(layer: Layer, comparison: Comparison) -> Layer:
    update: dict[str, Any] = {
        "own": _measured(layer.own, comparison),
        "chained": _measured(layer.chained, comparison),
        "uncompared": comparison.notes.get(layer.name),
    }
    if layer.failure is None:
        otherwise = comparison.given_otherwise.get(layer.name)
        update["reason"] = comparison.notes.get(layer.name, layer.reason) or otherwise
    else:
        failure = layer.failure
        reason = _in_words(failure.reason, failure.key, failure.is_missing, comparison)
        reason = f"{comparison.labels.get(failure.key, failure.what)}: {reason}"
        update["reason"] = _with_arguments(layer.name, reason, comparison)
    return layer.model_copy(update=update)


def _with_arguments(layer: str, reason: str, comparison: Comparison) -> str:
    """The reason, with what a layer is given otherwise than in the reference, for which it is not at fault."""
    otherwise = comparison.given_otherwise.get(layer)
    return reason if otherwise is None else f"{reason}; {otherwise}"


def _in_words(reason: str, key: str, is_missing: bool, comparison: Comparison) -> str:
    usual = f"the candidate computed no value for {key}" if is_missing else reason
    return comparison.reasons.get(key, usual)


def _measured(measured: Measured | None, comparison: Comparison) -> Measured | None:
    if measured is None or measured.key not in comparison.reasons or measured.incomparable is None:
        return measured
    why = comparison.reasons[measured.key]
    return measured.model_copy(update={"reason": why, "incomparable": why})
