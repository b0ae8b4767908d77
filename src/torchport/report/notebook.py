"""A report as a small piece of HTML, for notebooks: it brings its own style, and looks right on light and dark."""

from html import escape

from torchport.parity.result import Divergence
from torchport.report import phrases
from torchport.report.places import shown
from torchport.report.printable import printable
from torchport.runs.findings import line_of_fault
from torchport.runs.report import Report

_MARKS = {"pass": "✓", "FAIL": "✕", "unproven": "·"}
WORST = 10
_SIGNS = {"pass": ("✓", "#2e8b57"), "fail": ("✕", "#d9480f")}
_OTHER = ("!", "#b7791f")
# Colours that can be read on light and on dark: a notebook does not say which it is.
_STYLE = """
.torchport-report { font: 14px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; max-width: 880px; }
.torchport-report p { margin: 0 0 6px; overflow-wrap: anywhere; }
.torchport-report .verdict { font-weight: 600; }
.torchport-report .badge { color: #fff; border-radius: 5px; padding: 1px 9px; margin-right: 8px; }
.torchport-report .culprit { border-left: 4px solid #d9480f; padding: 2px 0 2px 12px; margin: 8px 0 10px; }
.torchport-report ol { margin: 0; padding-left: 20px; }
.torchport-report table { border-collapse: collapse; color: inherit; font-size: 13px; margin: 0; }
.torchport-report :is(th, td) { text-align: left; padding: 2px 16px 2px 0; border-bottom: 1px solid #8884; }
.torchport-report .number { text-align: right; font-variant-numeric: tabular-nums; }
.torchport-report .failed { color: #d9480f; font-weight: 600; }
"""


def render(report: Report) -> str:
    """The verdict, the culprit with what would explain it, and the worst layers. Text from outside is escaped."""
    report = printable(report)
    parts = [f"<style>{_STYLE}</style>", _verdict(report)]
    if report.first_divergence is not None:
        parts.append(_culprit(report.first_divergence))
    if report.todos:
        operations = ", ".join(sorted({todo.op for todo in report.todos}))
        parts.append(f"<p>To do: {escape(operations)}</p>")
    parts.append(_table(report))
    return f'<div class="torchport-report">{"".join(parts)}</div>'


def _verdict(report: Report) -> str:
    sign, colour = _SIGNS.get(report.status, _OTHER)
    badge = f'<span class="badge" style="background: {colour}">{sign} {phrases.word(report)}</span>'
    outputs = "" if report.outputs is None else f"<p>Outputs: {escape(phrases.outputs(report.outputs))}</p>"
    measured = "" if (said := phrases.measure(report)) is None else f"<p>{escape(said)}</p>"
    return f'<p class="verdict">{badge}{escape(phrases.headline(report))}</p>{measured}{outputs}'


def _culprit(divergence: Divergence) -> str:
    operation = divergence.operation
    lines = [
        f"Culprit: <b>{escape(divergence.place)}</b> ({escape(divergence.type)})",
        escape(phrases.culprit(divergence)),
    ]
    if operation is not None:
        lines.append(f"Operation: <b>{escape(operation.op)}</b> ({escape(operation.node)})")
    source = shown(line_of_fault(divergence))
    if source:
        lines.append(f"at {escape(source)}")
    text = "".join(f"<p>{line}</p>" for line in lines)
    return f'<div class="culprit">{text}{_suggestions(divergence)}</div>'


def _suggestions(divergence: Divergence) -> str:
    items = "".join(f"<li>{escape(phrases.suggestion(one))}</li>" for one in divergence.suggestions)
    return f"<p>What would explain it:</p><ol>{items}</ol>" if items else ""


def _table(report: Report) -> str:
    worst = phrases.worst(report, WORST)
    if not worst:
        return ""
    headings = ("", "Layer", "Type", "Own error", "of limit", "Chained")
    head = "".join(f"<th{_class(place)}>{heading}</th>" for place, heading in enumerate(headings))
    rows = []
    for layer, name in worst:
        cells = (
            f"{_MARKS[phrases.verdict(layer)]} {phrases.verdict(layer)}",
            name,
            layer.type.rpartition(".")[2],
            phrases.own_error(layer.own),
            phrases.share_of_limit(layer.own),
            phrases.largest(layer.chained),
        )
        row = "".join(f"<td{_class(place)}>{escape(cell)}</td>" for place, cell in enumerate(cells))
        kind = ' class="failed"' if layer.fails else ""
        rows.append(f"<tr{kind}>{row}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _class(column: int) -> str:
    return ' class="number"' if column >= 3 else ""
