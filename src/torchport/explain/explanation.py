"""Puts an explanation together: edits, the operation, hypotheses that hold, and the snippet to go on with."""

from __future__ import annotations

import re
from typing import Any

from torchport.capture.source import is_of_torch
from torchport.evidence import Evidence
from torchport.explain.drill import drill
from torchport.explain.edits import edits_of, hunks
from torchport.explain.scene import look_at
from torchport.explain.suggest import suggest
from torchport.explain.weights import Others
from torchport.proof import Port
from torchport.report.model import Report


def explained(port: Port, report: Report, evidence: Evidence) -> Report:
    """The report with the cause of its first divergence, as far as it can be found."""
    culprit = report.first_divergence
    if culprit is None:
        return report
    found: dict[str, Any] = {}
    sources = port.sources()
    if sources is not None and port.source is not None:
        found["edits"] = hunks(*sources, port.source.name)
    if culprit.kind == "own" and culprit.key is not None:
        scene = look_at(evidence, culprit.layer, culprit.key)
        if scene is not None:
            folder = port.folder / "snippets" / file_name(culprit.layer)
            drilled = drill(scene, port, folder / "port", edits_of(*sources) if sources else [])
            operation = None if drilled is None else drilled.operation
            if operation is not None and is_of_torch(operation.source):
                operation = operation.model_copy(update={"source": culprit.source})
            found["operation"] = operation
            known = None if operation is None else operation.node
            found["suggestions"] = suggest(scene, known, Others(evidence.weights))
    return report.model_copy(update={"first_divergence": culprit.model_copy(update=found)})


def file_name(layer: str) -> str:
    return re.sub(r"[^0-9A-Za-z_.-]+", "_", layer).strip(".") or "model"
