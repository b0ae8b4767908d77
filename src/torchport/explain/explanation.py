"""Puts an explanation together: edits, the operation, hypotheses that hold, and the snippet to go on with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torchport.capture.source import function_at, is_of_torch
from torchport.errors import TorchportError
from torchport.events import Steps
from torchport.explain.bench import Bench
from torchport.explain.drill import drill, set_up
from torchport.explain.same_cause import with_causes
from torchport.explain.snippet import SLICE, write_snippet
from torchport.explain.suggest import suggest
from torchport.explain.suspect import RunValues, Suspect, find_suspect
from torchport.explain.weights import Others
from torchport.explain.what_if import wrong_result
from torchport.parity.result import Divergence, Operation, Suggestion
from torchport.runs.folder import RunFolder
from torchport.runs.report import Report

_MOST_SNIPPETS = 8


@dataclass(frozen=True)
class Cause:
    """The operation of a layer that is wrong, if it is known, and hypotheses that explain what it computes."""

    operation: Operation | None
    suggestions: tuple[Suggestion, ...]


class Explained(Protocol):
    """What is explained: a port of whatever target, or a candidate in PyTorch."""

    @property
    def edits(self) -> tuple[str, ...]:
        """How the user has changed the candidate's source, as hunks of a unified diff."""
        ...

    @property
    def editable(self) -> str | None:
        """The file of a slice that a user may edit, from the folder of the slice; None if there is none."""
        ...

    def suspect(self, layer: str, key: str) -> Suspect | None:
        """A layer that differs at a value, as a suspect; None if the layer computes nothing by itself."""
        ...

    def cause(self, suspect: Suspect, culprit: Divergence, folder: Path) -> Cause:
        """Looks for the cause; the layer by itself is left in `folder`, so that it can be run again."""
        ...

    def explanations(self, suspect: Suspect, culprit: Divergence) -> tuple[Suggestion, ...]:
        """What explains a layer that fails where the culprit does, as far as that is known without running it alone."""
        ...

    def set_up(self, suspect: Suspect, folder: Path) -> None:
        """Leaves a layer by itself in `folder`. Raises a TorchportError if that cannot be done."""
        ...


@dataclass(frozen=True)
class PortedModel:
    """A port as the subject of an explanation: its layers are slices of the graph that was captured."""

    values: RunValues
    bench: Bench

    @property
    def edits(self) -> tuple[str, ...]:
        return self.bench.edits

    @property
    def editable(self) -> str | None:
        return self.bench.editable

    def suspect(self, layer: str, key: str) -> Suspect | None:
        return find_suspect(self.values, layer, key)

    def cause(self, suspect: Suspect, culprit: Divergence, folder: Path) -> Cause:
        drilled = drill(suspects(suspect, culprit, self.values, self.bench), self.bench, folder)
        operation = (drilled.operation if drilled else None) or only_operation(suspect)
        if operation is not None and is_of_torch(operation.source):
            operation = operation.model_copy(update={"source": culprit.source})
        known = None if operation is None else operation.node
        reproduced = drilled is not None and drilled.reproduced
        wrong = wrong_result(known, drilled.value) if drilled and reproduced and known else None
        return Cause(operation, suggest(suspect, known, Others(self.values.weights), wrong))

    def explanations(self, suspect: Suspect, culprit: Divergence) -> tuple[Suggestion, ...]:
        node = None if culprit.operation is None else culprit.operation.node
        return suggest(suspect, node, Others(self.values.weights))

    def set_up(self, suspect: Suspect, folder: Path) -> None:
        set_up(suspect, self.bench, folder)


def explained_if_possible(
    report: Report, files: RunFolder, subject: Explained, steps: Steps, *, kept: bool = True
) -> Report:
    """The report with the cause of its first divergence, if that can be found; the verdict stands without.

    `kept` says whether the folder is kept, so that it is worth having a snippet of every layer that fails.
    """
    try:
        with steps.step("explain", "looking for the cause"):
            report = explained(report, files, subject, kept=kept)
    except MemoryError:
        raise
    except Exception as error:
        steps.say(f"the cause could not be found: {type(error).__name__}: {error}")
    return report.model_copy(update={"seconds": dict(steps.seconds)})


def explained(report: Report, files: RunFolder, subject: Explained, *, kept: bool = True) -> Report:
    """The report with the cause of its first divergence, as far as it can be found, and a snippet a failing layer."""
    culprit = report.first_divergence
    if culprit is None:
        return report
    found: dict[str, Any] = {"edits": subject.edits}
    if culprit.kind == "own":
        shutil.rmtree(files.snippets, ignore_errors=True)
        found |= _cause(culprit, files, subject)
        if kept:
            _snippets_of_others(report, culprit, files, subject)
    culprit = culprit.model_copy(update=found)
    report = report.model_copy(update={"first_divergence": culprit})
    if culprit.kind != "own":
        return report
    return with_causes(report, subject.suspect, lambda suspect: subject.explanations(suspect, culprit))


def _cause(culprit: Divergence, files: RunFolder, subject: Explained) -> dict[str, Any]:
    suspect = None if culprit.key is None else subject.suspect(culprit.layer, culprit.key)
    if suspect is None:
        return {}
    folder = files.snippet(culprit.layer)
    write_snippet(folder, culprit.layer, suspect, subject.editable)
    cause = subject.cause(suspect, culprit, folder / SLICE)
    operation = cause.operation
    if operation is not None:
        operation = operation.model_copy(update={"function": function_at(operation.source)})
    return {"operation": operation, "suggestions": cause.suggestions, "snippet": str(folder)}


def suspects(suspect: Suspect, culprit: Divergence, values: RunValues, bench: Bench) -> Iterator[Suspect]:
    """The culprit by itself; for edits also with stand-ins for what it calls, which they may fit better."""
    yield suspect
    if bench.edits and culprit.key is not None:
        whole = find_suspect(values, culprit.layer, culprit.key, stand_ins=True)
        if whole is not None and whole.slice.has_calls:
            yield whole


def only_operation(suspect: Suspect) -> Operation | None:
    """The operation of a layer that has no other, if the value that differs is computed by it."""
    root = suspect.slice.graph.root
    differs = root.outputs[suspect.slice.outputs.index(suspect.key)]
    if len(suspect.slice.nodes) != 1 or suspect.slice.nodes[0].name != differs.name:
        return None
    (node,) = suspect.slice.nodes
    reason = "it is the only operation of the layer"
    return Operation(node=node.name, op=node.op, source=node.source, reason=reason, metrics=None)


def _snippets_of_others(report: Report, culprit: Divergence, files: RunFolder, subject: Explained) -> None:
    """Snippets of the other layers that fail by themselves: their tensors, and a slice that is set up, not run."""
    failed = [layer for layer in report.layers if not layer.passed and layer.own is not None]
    for layer in failed[:_MOST_SNIPPETS]:
        assert layer.own is not None
        suspect = None if layer.name == culprit.layer else subject.suspect(layer.name, layer.own.key)
        if suspect is not None:
            folder = files.snippet(layer.name)
            write_snippet(folder, layer.name, suspect, subject.editable)
            with suppress(TorchportError):
                subject.set_up(suspect, folder / SLICE)
