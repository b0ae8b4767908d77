"""From a failing candidate to the least that still fails: fewest operations, smallest sizes, plainest values.

Every step is tried for real: the candidate runs the few operations, and they are compared. What is handed over is run
once more in a fresh process.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from torchport.capture import graph as g
from torchport.errors import ReportError, TorchportError
from torchport.explain.bench import Bench, Trial
from torchport.explain.case import Case, case_of, computed, resized, rounded, smaller_sizes
from torchport.explain.explanation import suspects
from torchport.explain.repro import Minified, counted, hand_over
from torchport.explain.slice import some_operations
from torchport.explain.suspect import RunValues, Suspect, as_capture, find_suspect
from torchport.explain.what_if import bind
from torchport.parity.result import Divergence
from torchport.runs.folder import RunFolder
from torchport.runs.report import Report

_MOST_TRIES = 40
_PLAIN = (1, 2, 4, 8, 16, 64)
"""Steps between two whole numbers, the coarsest grid first."""


def minify(report: Report, files: RunFolder, values: RunValues, bench: Bench) -> Minified:
    """Reduces the culprit of a report to the smallest case, which is written to the folder of the run."""
    culprit = report.first_divergence
    if culprit is None or culprit.kind != "own" or culprit.key is None:
        raise nothing_to_reduce(report, files)
    suspect = find_suspect(values, culprit.layer, culprit.key)
    if suspect is None:
        raise ReportError(
            "TP0343",
            f"{culprit.layer} computes nothing by itself: it hands on another tensor than it should",
            where=culprit.source,
        )
    _must_be_plain(suspect, culprit)
    laboratory = _Laboratory(bench, files.minified, _is_broken(culprit))
    case, trial = laboratory.smallest(list(suspects(suspect, culprit, values, bench)), culprit)
    return hand_over(trial, case, culprit, laboratory.tries)


def _must_be_plain(suspect: Suspect, culprit: Divergence) -> None:
    """ReportError if the culprit is control flow: with other sizes or values, a loop may never end."""
    if any(node.bodies for node in suspect.slice.nodes):
        raise ReportError(
            "TP0344",
            f"{culprit.layer} runs graphs of its own, which is one operation that is not reduced",
            where=culprit.source,
            fix="Run rerun.py in the snippet of the layer, which has the control flow and its operands alone.",
        )


def nothing_to_reduce(report: Report, files: RunFolder) -> ReportError:
    """The error on a run without a layer that fails by itself, and what to do instead."""
    culprit = report.first_divergence
    if culprit is not None and culprit.kind != "chained":
        # What the program does behind the model, or calls that are too many: no operation of the model is at fault.
        return ReportError(
            "TP0343",
            f"{culprit.place}: {culprit.what}: {culprit.reason}; there is no operation to reduce",
            where=culprit.source,
            fix="Look at what was edited: `torchport report` on this folder shows it.",
        )
    fixes = {
        "pass": "Nothing fails in this run; there is nothing to do.",
        "fail": "Look at the report: `torchport report` on this folder says what drifts.",
    }
    return ReportError(
        "TP0343",
        f"{report.model} has no layer that fails by itself, so there is nothing to reduce",
        where=str(files.path),
        fix=fixes.get(
            report.status, "Finish the operations that the report lists as to do, and check again."
        ),
    )


def _is_broken(culprit: Divergence) -> bool:
    """Whether the port gave no comparable value, so that the smaller case need not give one either."""
    return culprit.metrics is None or culprit.metrics.incomparable is not None


@dataclass
class _Laboratory:
    """Where smaller cases are tried, all in one folder; the last that failed is set up there."""

    bench: Bench
    folder: Path
    broken: bool
    tries: int = 0
    variant: int | None = None
    """Which way of making the user's edits in the slice made the first case fail."""

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def smallest(self, suspects: list[Suspect], culprit: Divergence) -> tuple[Case, Trial]:
        """Of the culprit by itself, or else of the culprit with stand-ins for what it calls."""
        found = (self._fewest_operations(suspect, culprit) for suspect in suspects)
        case = next((case for case in found if case is not None), None)
        if case is None:
            raise ReportError(
                "TP0344",
                f"{culprit.layer} does not fail when its operations run alone, so it cannot be reduced",
                where=culprit.source,
            )
        case = self._plainest_values(self._smallest_sizes(case))
        trial = self._failing(case)
        if trial is None:
            raise ReportError(
                "TP0344", f"{culprit.layer} fails by itself, but not every time", where=culprit.source
            )
        return case, trial

    def fails(self, case: Case) -> bool:
        """Whether the candidate differs from torch when it runs the case."""
        return self._failing(case) is not None

    def _failing(self, case: Case) -> Trial | None:
        """The case as it failed, set up in the folder; None if it does not fail, or cannot be run."""
        self.tries += 1
        size = f"{counted(len(case.nodes), 'operation')} on {counted(case.elements, 'number')}"
        self.bench.say(f"trying {size}")
        try:
            capture = as_capture(case.graph, case.weights, list(case.inputs.values()), computed(case))
            trial = self.bench.set_up(capture, case.stored, self.folder, operations=False)
        except TorchportError:
            return None
        number = -1
        for number, is_edited in enumerate(trial.variants()):
            if not is_edited and number > 0:
                break  # The case without the edits is of no interest if they could be made in it.
            if self.variant in (None, number) and self._diverges(trial):
                self.variant = number
                return trial
        return None

    def _diverges(self, trial: Trial) -> bool:
        try:
            report = trial.run().report
        except TorchportError:
            return False
        return self._is_alike(report)

    def _is_alike(self, report: Report) -> bool:
        found = report.first_divergence
        return found is not None and found.kind == "own" and (self.broken or not _is_broken(found))

    def _fewest_operations(self, suspect: Suspect, culprit: Divergence) -> Case | None:
        """The operation itself, then ever more of what leads to it, then all of the layer."""
        if suspect.slice.has_calls:
            whole = _whole(suspect)
            return whole if self.fails(whole) else None
        nodes, values = [node.name for node in suspect.slice.nodes], _values(suspect)
        known = culprit.operation.node if culprit.operation else None
        last = nodes.index(known) if known in nodes else len(nodes) - 1
        for number in range(1, len(nodes) + 1):
            chosen = nodes[max(0, last + 1 - number) : last + 1]
            if number > len(chosen):
                break
            case = _part(suspect, chosen, values)
            if case is not None and self.fails(case):
                return self._without_some(suspect, chosen, case, values)
            if number >= _MOST_TRIES:
                break
        case = _part(suspect, nodes, values)
        if case is not None and self.fails(case):
            return self._without_some(suspect, nodes, case, values)
        return None

    def _without_some(
        self, suspect: Suspect, chosen: list[str], case: Case, values: dict[g.Ref, torch.Tensor]
    ) -> Case:
        for name in list(chosen):
            fewer = [node for node in chosen if node != name]
            self.variant = None
            smaller = _part(suspect, fewer, values) if fewer else None
            if smaller is not None and self.fails(smaller):
                chosen, case = fewer, smaller
        return case

    def _smallest_sizes(self, case: Case) -> Case:
        done: set[int] = set()
        while self.tries < _MOST_TRIES:
            for old, new in smaller_sizes(case):
                if old in done or self.tries >= _MOST_TRIES:
                    continue
                smaller = resized(case, old, new)
                if smaller is not None and self.fails(smaller):
                    case = smaller
                    break
                if new == old // 2:
                    done.add(old)
            else:
                return case
        return case

    def _plainest_values(self, case: Case) -> Case:
        for steps in _PLAIN:
            plainer = rounded(case, steps)
            if plainer is not None and self.fails(plainer):
                return plainer
        return case


def _part(suspect: Suspect, names: list[str], values: dict[g.Ref, torch.Tensor]) -> Case | None:
    """Some operations of the suspect on the values that were recorded there; None where nothing reads them."""
    keys = {ref: f"{ref.name}:{ref.index}" for ref in values}
    part = some_operations(suspect.slice, names, keys)
    known = {keys[ref]: value for ref, value in values.items()}
    known |= dict(zip(suspect.slice.inputs, suspect.inputs, strict=True))
    return case_of(part, known, dict(suspect.capture.weights), suspect.stored) if part.outputs else None


def _whole(suspect: Suspect) -> Case:
    values = dict(zip(suspect.slice.inputs, suspect.inputs, strict=True))
    return case_of(suspect.slice, values, dict(suspect.capture.weights), suspect.stored)


def _values(suspect: Suspect) -> dict[g.Ref, torch.Tensor]:
    """The value of every operation of the suspect."""
    found: dict[g.Ref, torch.Tensor] = {}
    for name, bound in bind(suspect).items():
        results = bound.result if isinstance(bound.result, list | tuple) else [bound.result]
        found |= {g.Ref(name, index): result for index, result in enumerate(results)}
    return found
