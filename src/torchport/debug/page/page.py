"""The page of debugging runs: what each found, the answer first, with source in colours and parts that fold.

In: reports and the folders they are in. Out: one HTML text, made as `pages` makes all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torchport import pages
from torchport.debug import phrases
from torchport.debug.constraints.base import Violation
from torchport.debug.folders import DebugFolder
from torchport.debug.report import DebugReport, GraphInfo
from torchport.report.html.sources import highlight, shown_at

_HERE = Path(__file__).parent
_NEEDED = ("jinja2", "pygments")
_LANGUAGES = {".py": "python", ".cpp": "cpp", ".txt": "text", ".ttir": "text"}
_SHOWN_FOLDERS = ("fx_graphs", "aot_graphs", "inductor_kernels", "inductor_ir", "repros")
LARGEST_CODE = 60_000
LINES_SHOWN = 3
OPS_SHOWN = 25


def render(runs: Sequence[tuple[DebugReport, DebugFolder]], benchmarks: dict[str, Any] | None = None) -> str:
    """The whole page."""
    pages.must_be_installed("the page of a debugging run", _NEEDED)
    reports = sorted(runs, key=lambda run: (run[0].model, run[0].backend))
    statuses = [report.status for report, _ in reports]
    scripts = {"theme": pages.theme(), "page": pages.in_one_scope([_HERE / "app.js"])}
    return pages.filled(
        _HERE / "page.html",
        title=", ".join(dict.fromkeys(f"{report.model} under {report.backend}" for report, _ in reports)),
        status=next((one for one in ("error", "fail") if one in statuses), "pass"),
        runs=[_run(report, folder) for report, folder in reports],
        benchmarks=None if benchmarks is None else _table(benchmarks),
        phrases=phrases,
        policy=pages.policy(scripts.values()),
        style=pages.style(pages.REPORT_STYLE, _HERE / "page.css"),
        scripts=scripts,
    )


def _run(report: DebugReport, folder: DebugFolder) -> dict[str, Any]:
    culprit = None if report.kernel_diff is None else report.kernel_diff.culprit
    return {
        "report": report,
        "took": ", ".join(f"{step} {seconds:.1f} s" for step, seconds in report.seconds.items()),
        "culprit_lines": shown_at([culprit.source if culprit else None], 1),
        "violations": _by_constraint(report.constraints.violations),
        "violated_lines": shown_at((one.source for one in report.constraints.violations), LINES_SHOWN),
        "graphs": [_graph(graph) for graph in report.graphs],
        "code": list(_code(report, folder)),
    }


def _by_constraint(violations: Sequence[Violation]) -> list[tuple[str, list[Violation]]]:
    found: dict[str, list[Violation]] = {}
    for violation in violations:
        found.setdefault(violation.constraint, []).append(violation)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _graph(graph: GraphInfo) -> dict[str, Any]:
    counts = sorted(graph.ops.items(), key=lambda item: (-item[1], item[0]))[:OPS_SHOWN]
    most = max((count for _, count in counts), default=1)
    ops = [(op, count, round(100 * count / most, 1)) for op, count in counts]
    return {"name": graph.name, "stage": graph.stage, "operations": graph.operations, "ops": ops}


def _code(report: DebugReport, folder: DebugFolder) -> Any:
    """Graphs, kernels and repros with colours; of a long one, the beginning."""
    for artifact in report.artifacts:
        path = folder.path / artifact.path
        is_code = artifact.path.partition("/")[0] in _SHOWN_FOLDERS and path.suffix in _LANGUAGES
        # A report may come from anywhere: only what lies in its own folder is shown.
        if not is_code or not path.resolve().is_relative_to(folder.path.resolve()):
            continue
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        shown = text[:LARGEST_CODE]
        cut = f"The first {len(shown):,} of {len(text):,} characters." if len(text) > len(shown) else ""
        yield artifact.path, artifact.what, "\n".join(highlight(shown, _LANGUAGES[path.suffix])), cut


def _table(benchmarks: dict[str, Any]) -> dict[str, Any]:
    """The rows of `torchport bench`: a column for each name that any row has a value of, numbers to the right."""
    rows = [_flat(row) for row in benchmarks["rows"] if isinstance(row, dict)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [
        (name.replace("_", " "), all(_is_number(row[name]) for row in rows if name in row)) for name in names
    ]
    return {"columns": columns, "rows": [[_cell(row.get(name)) for name in names] for row in rows]}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """What a row has of words and numbers; of a latency, its median."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict) and "median" in value:
            found[f"{name} ms"] = value["median"]
        elif value is not None and not isinstance(value, dict | list):
            found[name] = value
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if _is_number(value) else str(value)
