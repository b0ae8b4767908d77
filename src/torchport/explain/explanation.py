"""Puts an explanation together: edits, the operation, hypotheses that hold, and the snippet to go on with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from torchport.capture.source import is_of_torch
from torchport.errors import TorchportError
from torchport.explain.bench import Bench
from torchport.explain.drill import drill, set_up
from torchport.explain.scene import Evidence, Scene, look_at
from torchport.explain.snippet import SLICE, write_snippet
from torchport.explain.suggest import suggest
from torchport.explain.weights import Others
from torchport.parity.result import Divergence, Operation
from torchport.runs.folder import RunFolder
from torchport.runs.report import Report

_MOST_SNIPPETS = 8


def explained(report: Report, files: RunFolder, evidence: Evidence, bench: Bench) -> Report:
    """The report with the cause of its first divergence, as far as it can be found, and a snippet a failing layer."""
    culprit = report.first_divergence
    if culprit is None:
        return report
    found: dict[str, Any] = {"edits": bench.edits}
    if culprit.kind == "own":
        shutil.rmtree(files.snippets, ignore_errors=True)
        found |= _cause(culprit, files, evidence, bench)
        _snippets_of_others(report, culprit, files, evidence, bench)
    return report.model_copy(update={"first_divergence": culprit.model_copy(update=found)})


def _cause(culprit: Divergence, files: RunFolder, evidence: Evidence, bench: Bench) -> dict[str, Any]:
    scene = None if culprit.key is None else look_at(evidence, culprit.layer, culprit.key)
    if scene is None:
        return {}
    folder = files.snippet(culprit.layer)
    write_snippet(folder, culprit.layer, scene, bench.editable)
    drilled = drill(scenes(scene, culprit, evidence, bench), bench, folder / SLICE)
    operation = (drilled.operation if drilled else None) or _only(scene)
    if operation is not None and is_of_torch(operation.source):
        operation = operation.model_copy(update={"source": culprit.source})
    known = None if operation is None else operation.node
    return {
        "operation": operation,
        "suggestions": suggest(scene, known, Others(evidence.weights)),
        "snippet": str(folder),
    }


def scenes(scene: Scene, culprit: Divergence, evidence: Evidence, bench: Bench) -> Iterator[Scene]:
    """The culprit by itself; for edits also with stand-ins for what it calls, which they may fit better."""
    yield scene
    if bench.edits and culprit.key is not None:
        whole = look_at(evidence, culprit.layer, culprit.key, stand_ins=True)
        if whole is not None and len(whole.slice.graph.modules) > 1:
            yield whole


def _only(scene: Scene) -> Operation | None:
    if len(scene.slice.nodes) != 1:
        return None
    (node,) = scene.slice.nodes
    reason = "it is the only operation of the layer"
    return Operation(node=node.name, op=node.op, source=node.source, reason=reason, metrics=None)


def _snippets_of_others(
    report: Report, culprit: Divergence, files: RunFolder, evidence: Evidence, bench: Bench
) -> None:
    """Snippets of the other layers that fail by themselves: their tensors, and a slice that is set up, not run."""
    failed = [layer for layer in report.layers if not layer.passed and layer.own is not None]
    for layer in failed[:_MOST_SNIPPETS]:
        assert layer.own is not None
        scene = None if layer.name == culprit.layer else look_at(evidence, layer.name, layer.own.key)
        if scene is not None:
            folder = files.snippet(layer.name)
            write_snippet(folder, layer.name, scene, bench.editable)
            with suppress(TorchportError):
                set_up(scene, bench, folder / SLICE)
