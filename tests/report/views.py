"""Runs for the tests of the views: one with all that can be known about a culprit, and the odd ones."""

import math
from pathlib import Path

from torchport.parity.result import Layer, Operation, Suggestion
from torchport.runs.report import Report
from torchport.runs.run import Run

from .sample import failing, passing, unsupported

HUNK = "@@ -30 +30 @@\n-    norm: nn::layer_norm(cfg.hidden_size, 1e-12)?,\n+    norm: nn::layer_norm(64, 1e-5)?,\n"
NASTY = 'a|b <script>&amp; "q" \x1b[31m`tick` *x* _y_ 100% :: , \x00\ufffe\n### not a heading \U0001f642'
"""A name with all that some format takes for its own."""


def full() -> Report:
    """`head` is the culprit; the operation, suggestions, edits and the snippet are known."""
    report = failing(0.5)
    assert report.first_divergence is not None
    operation = Operation(
        node="layer_norm",
        op="aten.layer_norm.default",
        source="lib/norms.py:12",
        reason="5e+04 times the limit",
        metrics=None,
    )
    divergence = report.first_divergence.model_copy(
        update={
            "operation": operation,
            "suggestions": (
                Suggestion(
                    kind="eps",
                    text="eps is 1e-05 where the model has 1e-12",
                    explains=0.99999,
                    node="layer_norm",
                ),
                Suggestion(kind="scale", text="the scale is missing", explains=0.5),
            ),
            "edits": (HUNK,),
            "snippet": "out/snippets/head",
        }
    )
    return report.model_copy(update={"first_divergence": divergence})


def drifting() -> Report:
    """Every layer is right by itself, and the outputs are not: the culprit is one that passes."""
    report = passing()
    assert report.outputs is not None
    culprit = full().first_divergence
    assert culprit is not None
    found = culprit.model_copy(update={"kind": "chained", "layer": "encoder", "reason": "drifts too far"})
    outputs = report.outputs.model_copy(update={"passed": False, "reason": "drifts too far"})
    return report.model_copy(update={"status": "fail", "first_divergence": found, "outputs": outputs})


def nasty() -> Report:
    """Every text from outside is `NASTY`."""
    report = full()
    assert report.first_divergence is not None
    strange = {"source": f"{NASTY}.py:7", "type": NASTY, "reason": NASTY}
    layers = tuple(
        layer.model_copy(update={"name": f"{layer.name} {NASTY}", **strange}) for layer in report.layers
    )
    culprit = report.first_divergence.model_copy(update={"layer": f"head {NASTY}", "what": NASTY, **strange})
    todos = tuple(
        todo.model_copy(update=dict.fromkeys(("op", "layer", "reason"), NASTY))
        for todo in unsupported().todos
    )
    changed = {"model": NASTY, "target": NASTY, "rule": NASTY, "layers": layers, "todos": todos}
    return report.model_copy(update={**changed, "first_divergence": culprit})


def many(count: int) -> Report:
    """A report with very many failed layers and TODOs."""
    report = full()
    wrong = report.layers[1]
    layers = tuple(wrong.model_copy(update={"name": f"blocks.{i}"}) for i in range(count))
    todos = tuple(unsupported().todos[0].model_copy(update={"layer": f"blocks.{i}"}) for i in range(count))
    return report.model_copy(update={"layers": (*report.layers, *layers), "todos": todos})


def without_source(layer: Layer, parent: str) -> Layer:
    return layer.model_copy(update={"source": None, "parent": parent})


EVERY = {
    "pass": passing(),
    "fail": full(),
    "nan": failing(math.nan),
    "drift": drifting(),
    "nasty": nasty(),
    "unsupported": unsupported(),
    "error": Report(status="error", target="candle", model="Net"),
    "nothing compared": Report(status="fail", target="candle", model="Net"),
    "many": many(300),
}
"""A report of every kind, by what it is."""


def run_of(report: Report, folder: Path = Path("out")) -> Run:
    return Run.of(report, folder)
