"""From the values of a comparison to its report: the traces are written, compared, and told in plain words."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from torchport.candidates.golden import Plan
from torchport.errors import TorchportError
from torchport.parity.compare import compare_traces
from torchport.parity.result import Divergence, Layer, Measured, Parity
from torchport.parity.tolerance import Rule
from torchport.runs.report import Report, Seconds
from torchport.trace.writing import write_tensors

TARGET = "torch"
_NO_VALUE = re.compile(r"no value for (?P<key>.+)$")


@dataclass
class Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[step] = round(self.seconds.get(step, 0.0) + time.perf_counter() - start, 3)


@dataclass
class Evidence:
    """What was computed, and what is known about it that the traces do not tell."""

    plan: Plan
    golden: Mapping[str, Tensor]
    """What the candidate is measured against, by the key of its own."""
    chained: Mapping[str, Tensor]
    uncompared: list[Layer]
    order: list[str]
    """The names of all layers, compared or not, as they are listed."""
    truth: Mapping[str, Tensor] = field(default_factory=dict)
    """What the reference computes in float64 from golden inputs; empty where it cannot."""
    lockstep: Mapping[str, Tensor] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """By key, why there is no value where the other side has one."""
    labels: dict[str, str] = field(default_factory=dict)
    """By key, what the value is, where it is neither input nor output of a call."""
    parents: dict[str, str] = field(default_factory=dict)
    """By layer, the one that it is shown under, where that is not the one that calls it."""
    notes: dict[str, str] = field(default_factory=dict)
    """By layer, what is to be said of it even if it passes."""
    precision: str | None = None
    """The dtype of a candidate that is coarser than the reference, which was then measured in it."""
    stopped: TorchportError | None = None
    """The error at which the lock-step run ended before its time."""


def rule_for(rtol: float | None, atol: float | None) -> Rule | None:
    """The rule that was asked for; None for the noise floor."""
    if rtol is None and atol is None:
        return None
    from torchport.porting.port import rule_of  # Late: it brings all that ports need, which takes a second.

    return rule_of(rtol, atol)


def judge(evidence: Evidence, name: str, rule: Rule | None, out: Path | None, clock: Clock) -> Report:
    """The report, which is written to `out` with the traces, or to nowhere."""
    if out is not None:
        return _judge(evidence, name, rule, out, clock, keep=True)
    with tempfile.TemporaryDirectory(prefix="torchport-") as folder:
        return _judge(evidence, name, rule, Path(folder), clock, keep=False)


def _judge(
    evidence: Evidence, name: str, rule: Rule | None, folder: Path, clock: Clock, *, keep: bool
) -> Report:
    plan = evidence.plan
    paths = {kind: folder / "capture" / f"{name}_{kind}.safetensors" for kind in ("trace", "truth")}
    runs = {kind: folder / "run" / f"{kind}.safetensors" for kind in ("lockstep", "chained")}
    metadata = {"schema": "1", "root": plan.root}
    residual = _residual(evidence.golden, evidence.truth)
    with clock.timed("compare"):
        write_tensors(paths["trace"], evidence.golden, metadata, aliases=plan.aliases)
        write_tensors(paths["truth"], residual, metadata)
        write_tensors(runs["lockstep"], evidence.lockstep, metadata)
        write_tensors(runs["chained"], evidence.chained, metadata)
        parity = compare_traces(
            paths["trace"],
            runs["lockstep"],
            runs["chained"],
            calls=plan.steps.values(),
            events=plan.events,
            truth=paths["truth"],
            rule=rule,
        )
    if rule is None and evidence.precision is not None:
        parity = parity.model_copy(update={"rule": f"{parity.rule} in {evidence.precision}"})
    divergence = parity.first_divergence
    if evidence.stopped is not None and (divergence is None or divergence.metrics is None):
        raise evidence.stopped
    report = Report.of_parity(
        _told(parity, evidence), target=TARGET, model=name, seconds=Seconds(**clock.seconds)
    )
    if not keep:
        return report
    file = folder / "report.json"
    files = {"capture": str(folder / "capture"), "run": str(folder / "run")}
    report = report.model_copy(update={"report": str(file), "files": files})
    report.write(file)
    return report


def _residual(golden: Mapping[str, Tensor], truth: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """How far each golden value is from the truth; nothing where one of them is not a number."""
    found = {}
    for key, value in truth.items():
        known = golden.get(key)
        if known is None or not known.is_floating_point() or known.shape != value.shape:
            continue
        wide = known.detach().double().cpu()
        exact = value.detach().double().cpu()
        is_finite = torch.isfinite(wide) & torch.isfinite(exact)
        found[key] = torch.where(is_finite, exact - wide, 0.0).float()
    return found


def _told(parity: Parity, evidence: Evidence) -> Parity:
    """The same with every layer of the reference in it, and with words for what has no value."""
    told = {layer.name: _layer(layer, evidence) for layer in parity.layers}
    told |= {layer.name: layer for layer in evidence.uncompared}
    divergence = parity.first_divergence
    return parity.model_copy(
        update={
            "layers": tuple(told[name] for name in evidence.order),
            "first_divergence": None if divergence is None else _divergence(divergence, evidence),
        }
    )


def _divergence(divergence: Divergence, evidence: Evidence) -> Divergence:
    key = divergence.key or ""
    update = {
        "reason": _in_words(divergence.reason, key, evidence),
        "what": evidence.labels.get(key, divergence.what),
        "metrics": _measured(divergence.metrics, evidence),
    }
    return divergence.model_copy(update=update)


def _layer(layer: Layer, evidence: Evidence) -> Layer:
    update = {
        "own": _measured(layer.own, evidence),
        "chained": _measured(layer.chained, evidence),
        "parent": evidence.parents.get(layer.name, layer.parent),
    }
    if layer.passed:
        update["reason"] = evidence.notes.get(layer.name, layer.reason)
    else:
        what, _, reason = (layer.reason or "").partition(": ")
        missing = _NO_VALUE.search(reason)
        key = missing.group("key") if missing else layer.own.key if layer.own else ""
        update["reason"] = f"{evidence.labels.get(key, what)}: {_in_words(reason, key, evidence)}"
    return layer.model_copy(update=update)


def _in_words(reason: str, key: str, evidence: Evidence) -> str:
    return evidence.reasons.get(key, reason.replace("the port computed", "the candidate computed"))


def _measured(measured: Measured | None, evidence: Evidence) -> Measured | None:
    if measured is None or measured.key not in evidence.reasons or measured.incomparable is None:
        return measured
    why = evidence.reasons[measured.key]
    return measured.model_copy(update={"reason": why, "incomparable": why})
