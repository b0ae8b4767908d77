"""From the values of a comparison to its report, by the rules that ports are held to."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from torchport.arithmetic.classes import Arithmetic
from torchport.debug.kernel_diff.values import Values
from torchport.events import Steps
from torchport.parity.result import Divergence, Layer, Operation, Parity
from torchport.parity.rulebook import NOISE_FLOOR, RuleBook
from torchport.runs.folder import RunFile, RunFolder
from torchport.runs.report import Report
from torchport.runs.verdict import Emulate, Reference, RunTraces, compare_run, written
from torchport.trace.plan import Plan, operation_of
from torchport.trace.reading import HeldTrace
from torchport.trace.writing import write_tensors

Ends = Callable[[Arithmetic | None], Mapping[str, Tensor]]


@dataclass
class Judgement:
    """A plan with its values, and what else the report must say."""

    plan: Plan
    values: Values
    order: list[str]
    emulate: Emulate
    ends: Ends
    """Outputs and gradients of the whole model in a class of arithmetic, or in float64, by key."""
    types: dict[str, tuple[str, str | None, str]] = field(default_factory=dict)
    """Of calls that are not in the plan: type, line and parent."""
    surplus: list[Layer] = field(default_factory=list)
    may_differ: Collection[str] = ()
    """Calls that are listed as not compared if they differ, because the model draws random numbers."""
    excused: Callable[[Collection[str]], Mapping[str, str]] = lambda failed: {}
    """Of calls that failed, those that are right all the same, and why."""


def judge(
    judgement: Judgement,
    backend: str,
    rules: RuleBook,
    arithmetic: Arithmetic,
    steps: Steps,
    out: Path | None,
) -> Report:
    """The report. With `out`, it is written there with the values of what is out of bounds, and of the whole model."""
    plan, about = judgement.plan, RunFile(name=judgement.plan.root, target=backend)
    emulate_ends = judgement.ends

    def emulated(how: Arithmetic, calls: Collection[str]) -> Mapping[str, Tensor]:
        return judgement.emulate(how, calls)

    reference = Reference(arithmetic, emulated, lambda: emulate_ends(None), emulate_ends)
    with tempfile.TemporaryDirectory(prefix="torchport-") as folder:
        files = RunFolder(out or Path(folder), about)
        parity = compare_run(
            files,
            plan,
            rules,
            steps,
            reference=reference if rules is NOISE_FLOOR else None,
            traces=_traces(judgement),
            pictures=out is not None,
        )
        parity = _completed(parity, judgement)
        report = Report.of_parity(parity, target=backend, model=plan.root, seconds=steps.seconds)
        if out is None:
            return report
        _write(judgement, files)
        files.write()
        return written(report.model_copy(update={"files": {"run": str(out)}}), files)


def _traces(judgement: Judgement) -> RunTraces:
    values, root = judgement.values, judgement.plan.root
    golden, own, truth, candidate = (
        HeldTrace(name, held, root)
        for name, held in (
            ("eager PyTorch", values.golden),
            ("eager PyTorch", values.own_golden),
            ("float64", values.distances),
            ("the backend", values.candidate),
        )
    )
    return RunTraces(golden, truth, candidate, candidate, own, values.remembered)


def _write(judgement: Judgement, files: RunFolder) -> None:
    values, metadata = judgement.values, {"schema": "1", "root": judgement.plan.root}
    write_tensors(files.captured("trace"), values.own_golden, metadata)
    write_tensors(files.captured("truth"), values.distances, metadata)
    write_tensors(files.record("lockstep"), values.candidate, metadata)
    write_tensors(files.record("chained"), values.candidate, metadata)


def _completed(parity: Parity, judgement: Judgement) -> Parity:
    """The comparison with a row for what was not compared, in the order of execution, in words about a backend."""
    rows = {layer.name: _in_words(layer, judgement) for layer in parity.layers}
    for name, how in judgement.values.truths.items():
        if name in rows:
            rows[name] = _with_truth(rows[name], how)
    for name in judgement.may_differ:
        if name in rows and not rows[name].passed:
            rows[name] = _uncompared(
                rows[name], "the model draws random numbers, and compiled it drew others"
            )
    for name, why in judgement.excused([name for name, row in rows.items() if not row.passed]).items():
        rows[name] = rows[name].model_copy(update={"passed": True, "reason": why, "failure": None})
    for name, why in judgement.values.uncompared.items():
        rows[name] = _uncompared(rows.get(name) or _row_of(name, judgement), why)
    rows |= {layer.name: layer for layer in judgement.surplus}
    layers = tuple(rows[name] for name in dict.fromkeys((*judgement.order, *rows)) if name in rows)
    failed = [layer for layer in layers if not layer.passed]
    divergence = parity.first_divergence
    if divergence is not None and divergence.kind == "own" and rows[divergence.layer].passed:
        divergence = None
    if divergence is None and failed:
        divergence = _divergence_of(failed[0])
    update = {
        "layers": layers,
        "first_divergence": None if divergence is None else _with_operation(divergence, judgement),
        "passed": not failed and divergence is None and parity.compared > 0,
    }
    return parity.model_copy(update=update)


def _row_of(name: str, judgement: Judgement) -> Layer:
    type, source, parent = judgement.types.get(name, ("", None, judgement.plan.root))
    return Layer(name=name, type=type, own=None, chained=None, passed=True, source=source, parent=parent)


def _uncompared(layer: Layer, why: str) -> Layer:
    nothing = dict.fromkeys(("own", "chained", "rule", "picture", "failure", "arithmetic"))
    return layer.model_copy(update={**nothing, "passed": True, "reason": why, "uncompared": why})


def _with_truth(layer: Layer, how: str) -> Layer:
    """A row that says how its truth was computed, if not by kernels in float64 alone."""
    if layer.own is None or layer.own.noise is None:
        return layer
    own = layer.own.model_copy(update={"rule": f"{layer.own.rule} (truth: {how})"})
    return layer.model_copy(update={"own": own, "rule": f"{layer.rule} (truth: {how})"})


def _in_words(layer: Layer, judgement: Judgement) -> Layer:
    failure = layer.failure
    if failure is None or not failure.is_missing:
        return layer
    why = _why_missing(failure.key, judgement)
    return layer.model_copy(update={"reason": f"{failure.what}: {why}"})


def _why_missing(key: str, judgement: Judgement) -> str:
    return judgement.values.reasons.get(key, f"the backend gives no value for {key}")


def _divergence_of(layer: Layer) -> Divergence:
    return Divergence(
        layer=layer.name,
        type=layer.type,
        source=layer.source,
        call=layer.name,
        what="output" if layer.failure is None else layer.failure.what,
        kind="own",
        reason=(layer.reason if layer.failure is None else layer.failure.reason) or "",
        metrics=layer.own,
        key=None if layer.failure is None else layer.failure.key,
    )


def _with_operation(divergence: Divergence, judgement: Judgement) -> Divergence:
    """The culprit with its operation, if it is one, and the reason in words about a backend."""
    reason = divergence.reason
    if divergence.metrics is None and divergence.key is not None:
        reason = _why_missing(divergence.key, judgement)
    update: dict[str, object] = {"reason": reason}
    if (node := operation_of(divergence.layer)) is not None:
        update["operation"] = Operation(
            node=node,
            op=divergence.type,
            source=divergence.source,
            reason=reason,
            metrics=divergence.metrics,
        )
    return divergence.model_copy(update=update)
