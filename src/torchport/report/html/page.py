"""The page: the facts of a run as JSON, and the template that shows them.

In: a run. Out: one HTML text with script, style and data inside, made as `pages` makes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from torchport import pages
from torchport.capture.graph import Graph
from torchport.capture.plan import Plan, make_plan
from torchport.parity.bins import MULTIPLE
from torchport.parity.result import Layer
from torchport.parity.tolerance import NoiseFloor
from torchport.report import phrases
from torchport.report.html import chart, columns, drawing, every, sources
from torchport.report.places import shown, with_short_places
from torchport.runs.findings import findings
from torchport.runs.report import Report
from torchport.runs.run import Run
from torchport.targets.base import SourceMap

WORST = 15
TODOS_SHOWN = 8
_HERE = Path(__file__).parent
_SCRIPTS = (
    "data.js",
    "tree.js",
    "search.js",
    "chart.js",
    "layout.js",
    "graph.js",
    "pictures.js",
    "detail.js",
    "app.js",
)
_NEEDED = ("altair", "grandalf", "jinja2", "pygments", "vl_convert")


def render(run: Run) -> str:
    """The whole page."""
    pages.must_be_installed("the HTML report", _NEEDED)
    report, culprit = run.report, run.report.first_divergence
    scripts = {
        "theme": pages.theme(),
        "vega": chart.script() if report.layers else "",
        "page": pages.in_one_scope(_HERE / name for name in _SCRIPTS),
    }
    return pages.filled(
        _HERE / "page.html",
        report=report,
        phrases=phrases,
        culprit=culprit,
        culprit_layer=_culprit_layer(report),
        edits=["\n".join(sources.highlight(edit, "diff")) for edit in _edits(report)],
        todos_at=sources.shown_at((todo.source for todo in report.todos), TODOS_SHOWN),
        worst=phrases.worst(report, WORST),
        alike=found[0].others if culprit is not None and (found := findings(report)) else (),
        by_noise=report.rule == NoiseFloor().name,
        multiple=f"{MULTIPLE:g}",
        shown=shown,
        with_short_places=with_short_places,
        link=link,
        policy=pages.policy(scripts.values()),
        style=pages.style(pages.REPORT_STYLE, _HERE / "page.css"),
        scripts=scripts,
        data=pages.as_script(_data(run)),
    )


def link(name: str) -> str:
    """The deep link of a layer, as the page's script writes it."""
    return "#layer=" + quote(name.encode("utf-8", "replace"), safe="")


def _culprit_layer(report: Report) -> Layer | None:
    if report.first_divergence is None:
        return None
    return next((layer for layer in report.layers if layer.name == report.first_divergence.layer), None)


def _edits(report: Report) -> tuple[str, ...]:
    return () if report.first_divergence is None else report.first_divergence.edits


def _data(run: Run) -> dict[str, Any]:
    report, texts = run.report, columns.Texts()
    layers, graph = report.layers, run.graph if report.layers else None
    source_map = run.sources if graph is not None else None
    data = {
        "layers": columns.layers(layers, texts),
        "graph": None if graph is None else drawing.drawings(graph, layers, texts),
        "modules": None if graph is None else _modules(graph, layers, source_map, texts),
        "python": sources.excerpts(graph, _places(report)),
        "ported": sources.ported(source_map),
        "culprit": _culprit(report),
        "every": every.elements(run, graph),
        "chart": chart.specification(layers) if layers else None,
    }
    return {**data, "texts": texts.all()}


def _places(report: Report) -> Iterator[str | None]:
    yield from (layer.source for layer in report.layers)
    if report.first_divergence is not None and report.first_divergence.operation is not None:
        yield report.first_divergence.operation.source


def _culprit(report: Report) -> dict[str, Any] | None:
    divergence = report.first_divergence
    if divergence is None:
        return None
    operation = divergence.operation
    names = [layer.name for layer in report.layers]
    return {
        "layer": names.index(divergence.layer) if divergence.layer in names else None,
        "node": None if operation is None else operation.node,
        "ratio": None
        if operation is None or operation.metrics is None
        else columns.short(operation.metrics.ratio),
    }


def _modules(
    graph: Graph, layers: tuple[Layer, ...], source_map: SourceMap | None, texts: columns.Texts
) -> dict[str, list[Any]]:
    """For each layer: where its `forward` begins, the unit that holds its ported code, and its name in that unit.

    A layer that has no unit of its own is shown in the unit of the nearest caller that has one.
    """
    plan, parents = make_plan(graph), {layer.name: layer.parent for layer in layers}
    unit_of = {} if source_map is None else source_map.unit_of
    forwards: list[Any] = []
    units: list[Any] = []
    fields: list[Any] = []
    for layer in layers:
        call = plan.calls.get(layer.name)
        forwards.append(texts.number(shown(graph.modules[call.module].source if call else None)))
        unit, field = _unit_around(layer.name, parents, plan, unit_of)
        units.append(texts.number(unit))
        fields.append(texts.number(field))
    return {"forward": forwards, "unit": units, "field": fields}


def _unit_around(
    name: str, parents: dict[str, str | None], plan: Plan, unit_of: dict[str, str]
) -> tuple[str | None, str | None]:
    holder: str | None = name
    while holder is not None and (call := plan.calls.get(holder)) is not None:
        if call.module in unit_of:
            path = plan.calls[name].path
            inside = path.removeprefix(f"{call.path}.") if call.path else path
            return unit_of[call.module], None if holder == name else inside.partition(".")[0]
        holder = parents.get(holder)
    return None, None
