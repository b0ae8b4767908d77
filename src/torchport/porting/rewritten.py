"""The smallest case of a layer that was rewritten in PyTorch, from the files that its snippet has.

The layer is a port of its own there: the reference's slice, and the candidate's graph as what was made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from torchport.capture.recorder import Capture
from torchport.errors import ReportError
from torchport.events import Passing
from torchport.explain.minify import minify, nothing_to_reduce
from torchport.explain.repro import Minified
from torchport.explain.rewriting import Rewritten, rewrite
from torchport.explain.snippet import SLICE
from torchport.explain.suspect import RunValues
from torchport.parity.result import Divergence
from torchport.porting.bench import PortBench, PortTrial
from torchport.porting.port import Port
from torchport.runs.folder import RunFolder
from torchport.runs.report import Report


@dataclass(frozen=True)
class RewrittenTrial(PortTrial):
    """A part of the candidate's graph, which nobody edits."""

    def variants(self) -> Iterator[bool]:
        yield False


@dataclass(frozen=True)
class RewrittenBench(PortBench):
    """Runs a part of the candidate's graph in the place of each part of the reference's slice."""

    layer: Rewritten

    @property
    def edits(self) -> tuple[str, ...]:
        return ()

    def set_up(
        self, part: Capture, stored: Mapping[str, torch.Tensor], folder: Path, *, operations: bool
    ) -> RewrittenTrial:
        graph, weights = self.layer.part(part, stored)
        trial = super().set_up(part, stored, folder, operations=operations)
        rewrite(trial.port.files.project, graph, weights)
        return RewrittenTrial(trial.port, trial.edited)


def minify_rewritten(report: Report, files: RunFolder, port: Port) -> Minified:
    """Reduces the culprit of a comparison of two models; `port` is the one in its snippet."""
    culprit = report.first_divergence
    assert culprit is not None
    again = port.check(explain=False)
    found = again.first_divergence
    if found is None:
        raise ReportError(
            "TP0344",
            f"{culprit.layer} does not fail when its operations run alone, so it cannot be reduced",
            where=culprit.source,
        )
    known = found.model_copy(update={"operation": culprit.operation, "source": culprit.source})
    bench = RewrittenBench(
        port.target, port.artifact, lambda text: port.watch(Passing(text)), Rewritten.open(port.files)
    )
    values = RunValues.of(port.files, port.graph, port.artifact.stored)
    small = minify(again.model_copy(update={"first_divergence": known}), files, values, bench)
    return small.model_copy(update={"layer": culprit.layer})


def snippet_port(report: Report, files: RunFolder) -> Path:
    """The folder of the port in the culprit's snippet; ReportError if there is none."""
    culprit = _must_be_reducible(report, files)
    folder = files.snippet(culprit.layer) / SLICE
    if not folder.is_dir():
        raise ReportError(
            "TP0343",
            f"the operations of {culprit.layer} could not be seen, so there is nothing to reduce",
            where=culprit.source,
            fix="A layer is reduced if its operations can be traced; compiled or scripted ones cannot.",
        )
    return folder


def _must_be_reducible(report: Report, files: RunFolder) -> Divergence:
    culprit = report.first_divergence
    if culprit is None or culprit.kind != "own":
        raise nothing_to_reduce(report, files)
    return culprit
