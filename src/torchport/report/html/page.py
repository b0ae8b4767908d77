"""The page: the facts of a run as JSON, and the template that shows them.

In: a run. Out: one HTML text with script, style and data inside. Text from outside is escaped by the template or, in
the data, so that it cannot end its script; only scripts that are written here may run.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

from torchport.capture.graph import Graph
from torchport.capture.plan import Plan, make_plan
from torchport.errors import UsageError
from torchport.parity.result import Layer
from torchport.report import phrases
from torchport.report.html import chart, columns, drawing, sources
from torchport.runs.report import Report
from torchport.runs.run import Run
from torchport.targets.base import SourceMap

WORST = 15
TODOS_SHOWN = 8
_HERE = Path(__file__).parent
_SCRIPTS = (
    "data.js",
    "dom.js",
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
    _must_be_installed()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    report = run.report
    scripts = {
        "theme": _read("theme.js"),
        "vega": chart.script() if report.layers else "",
        "page": _in_one_scope(_read(name) for name in _SCRIPTS),
    }
    text = environment.get_template("page.html").render(
        report=report,
        phrases=phrases,
        culprit=report.first_divergence,
        culprit_layer=_culprit_layer(report),
        edits=["\n".join(sources.highlight(edit, "diff")) for edit in _edits(report)],
        todos_at=sources.shown_at((todo.source for todo in report.todos), TODOS_SHOWN),
        worst=report.worst_layers(WORST),
        link=link,
        policy=_policy(scripts.values()),
        style=_read("page.css"),
        scripts=scripts,
        data=as_script(_data(run)),
    )
    # A name may hold half a surrogate pair, which cannot be written to a file.
    return text.encode("utf-8", "replace").decode("utf-8")


def _must_be_installed() -> None:
    for package in _NEEDED:
        try:
            import_module(package)
        except ImportError as error:
            message = f"the HTML report needs {package}, which is not installed"
            fix = "Run `pip install 'torchport[html]'`."
            raise UsageError("TP0803", message, fix=fix) from error


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _in_one_scope(parts: Iterator[str]) -> str:
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"


def _policy(scripts: Any) -> str:
    """The content security policy: nothing is fetched, and only the scripts of the page run, known by their hashes."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts if script)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def as_script(data: Any) -> str:
    """JSON that can stand inside a script element, whatever text is in it."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


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
        forwards.append(texts.number(graph.modules[call.module].source if call else None))
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
