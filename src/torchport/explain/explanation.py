"""Puts an explanation together: edits, the operation, hypotheses that hold, and the snippet to go on with."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from torchport.capture.source import is_of_torch
from torchport.errors import TorchportError
from torchport.explain.drill import drill, port_of
from torchport.explain.edits import Edit, edits_of, hunks
from torchport.explain.scene import Scene, look_at
from torchport.explain.snippet import write_snippet
from torchport.explain.suggest import suggest
from torchport.explain.weights import Others
from torchport.parity.result import Divergence, Operation
from torchport.porting.port import Port
from torchport.porting.soundness import Evidence
from torchport.runs.report import Report

_MOST_SNIPPETS = 8
_RERUN = """\
Runs $layer alone in Rust and compares each of its operations with PyTorch.

Edit port/rust/src/model.rs, then run this again: only this layer is built. The values that come from the layers inside
it are the recorded ones.
"""


def explained(port: Port, report: Report, evidence: Evidence) -> Report:
    """The report with the cause of its first divergence, as far as it can be found, and a snippet a failing layer."""
    culprit = report.first_divergence
    if culprit is None:
        return report
    sources = port.sources()
    found: dict[str, Any] = {}
    if sources is not None and port.source is not None:
        found["edits"] = hunks(*sources, port.source.name)
    edits = edits_of(*sources) if sources else []
    if culprit.kind == "own":
        shutil.rmtree(port.folder / "snippets", ignore_errors=True)
        found |= _cause(port, culprit, evidence, edits)
        _others(port, report, evidence)
    return report.model_copy(update={"first_divergence": culprit.model_copy(update=found)})


def _cause(port: Port, culprit: Divergence, evidence: Evidence, edits: list[Edit]) -> dict[str, Any]:
    assert culprit.key is not None
    scene = look_at(evidence, culprit.layer, culprit.key)
    if scene is None:
        return {}
    folder = port.folder / "snippets" / file_name(culprit.layer)
    write_snippet(folder, culprit.layer, scene, rerun=_RERUN)
    drilled = drill(scenes(scene, culprit, evidence, edits), port, folder / "port", edits)
    operation = (drilled.operation if drilled else None) or _only(scene)
    if operation is not None and is_of_torch(operation.source):
        operation = operation.model_copy(update={"source": culprit.source})
    known = None if operation is None else operation.node
    return {
        "operation": operation,
        "suggestions": suggest(scene, known, Others(evidence.weights)),
        "snippet": str(folder),
    }


def scenes(scene: Scene, culprit: Divergence, evidence: Evidence, edits: list[Edit]) -> Iterator[Scene]:
    """The culprit by itself; for edits also with stand-ins for what it calls, which they may fit better."""
    yield scene
    if edits and culprit.key is not None:
        whole = look_at(evidence, culprit.layer, culprit.key, stand_ins=True)
        if whole is not None and len(whole.slice.graph.modules) > 1:
            yield whole


def _only(scene: Scene) -> Operation | None:
    if len(scene.slice.nodes) != 1:
        return None
    (node,) = scene.slice.nodes
    reason = "it is the only operation of the layer"
    return Operation(node=node.name, op=node.op, source=node.source, reason=reason, metrics=None)


def _others(port: Port, report: Report, evidence: Evidence) -> None:
    """Snippets of the other layers that fail by themselves: their tensors, and a port that is not built yet."""
    failed = [layer for layer in report.layers if not layer.passed and layer.own is not None]
    culprit = report.first_divergence
    for layer in failed[:_MOST_SNIPPETS]:
        assert layer.own is not None and culprit is not None
        scene = None if layer.name == culprit.layer else look_at(evidence, layer.name, layer.own.key)
        if scene is not None:
            folder = port.folder / "snippets" / file_name(layer.name)
            write_snippet(folder, layer.name, scene, rerun=_RERUN)
            with suppress(TorchportError):
                port_of(scene, port, folder / "port")


def file_name(layer: str) -> str:
    return re.sub(r"[^0-9A-Za-z_.-]+", "_", layer).strip(".") or "model"
