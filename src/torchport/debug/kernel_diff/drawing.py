"""Pictures of a comparison: errors by layer, and where in the tensors of the worst layers they lie."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchport.debug.tree import ArtifactTree
from torchport.parity.result import Layer
from torchport.report.html.chart import CHAINED, FAILED, OWN, specification
from torchport.runs.report import Report

HEATMAPS = 4
_FOLDER = "visualizations"


def draw(report: Report, tree: ArtifactTree) -> tuple[Path, ...]:
    """Draws the summary, and heatmaps of the worst layers; what the disk refuses is among the tree's problems."""
    import vl_convert

    layers = [layer for layer in report.layers if layer.own is not None or layer.chained is not None]
    found = []
    if layers:
        summary: str = vl_convert.vegalite_to_svg(json.dumps(_summary(layers, report)))
        found.append(tree.write(_FOLDER, "summary.svg", summary, "errors by layer"))
    worst = [layer for layer in report.worst_layers(HEATMAPS) if layer.picture is not None]
    if worst:
        image: bytes = vl_convert.vegalite_to_png(json.dumps(_heatmaps(worst)), scale=2)
        found.append(tree.write(_FOLDER, "heatmaps.png", image, "where errors lie in the worst layers"))
    return tuple(path for path in found if path is not None)


def _summary(layers: Sequence[Layer], report: Report) -> dict[str, Any]:
    """The chart of the HTML report that has squared errors, with its data in it."""
    made = specification(layers)
    divergence = report.first_divergence
    places = {layer.name: place for place, layer in enumerate(layers)}
    culprit = []
    if divergence is not None and divergence.layer in places:
        place = places[divergence.layer]
        culprit = [{"place": place, "words": divergence.layer, "late": place > len(layers) / 2}]
    rows = [row for place, layer in enumerate(layers) for row in _rows(place, layer, made["panels"])]
    spec = made["specs"]["mse"]
    spec["datasets"] = {**spec.get("datasets", {}), "rows": rows, "culprit": culprit, "selected": []}
    return spec


def _rows(place: int, layer: Layer, panels: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for series, measured in ((OWN if layer.passed else FAILED, layer.own), (CHAINED, layer.chained)):
        if measured is None:
            continue
        numbers = {"ratio": measured.ratio, "mse": measured.mse, "apart": 1.0 - measured.cosine}
        lanes = {name: _lane(value, panels[name]) for name, value in numbers.items() if value is not None}
        rows.append({"place": place, "series": series, "layer": layer.name, "size": 30, **lanes})
    return rows


def _lane(value: float, panel: dict[str, Any]) -> float | None:
    """Where a value is on a panel's axis, which is of powers of ten with a lane for zero and one for NaN."""
    if not math.isfinite(value):
        lane: float | None = panel["over"]
        return lane
    if value <= 0:
        zero: float | None = panel["zero"]
        return zero
    return math.log10(value)


def _heatmaps(layers: Sequence[Layer]) -> dict[str, Any]:
    import altair as alt

    charts = [_heatmap(alt, layer) for layer in layers]
    spec: dict[str, Any] = alt.hconcat(*charts).resolve_scale(color="independent").to_dict()
    return spec


def _heatmap(alt: Any, layer: Layer) -> Any:
    assert layer.picture is not None
    cells = [
        {"row": row, "column": column, "error": error if math.isfinite(error) else None}
        for row, errors in enumerate(layer.picture.errors)
        for column, error in enumerate(errors)
    ]
    chart = alt.Chart(alt.InlineData(values=cells), title=layer.name).mark_rect()
    return chart.encode(
        x=alt.X("column:O", title="last axis", axis=alt.Axis(labels=False, ticks=False)),
        y=alt.Y("row:O", title="all other axes", axis=alt.Axis(labels=False, ticks=False)),
        color=alt.Color("error:Q", title="largest error", scale=alt.Scale(scheme="inferno")),
    ).properties(width=160, height=160)
