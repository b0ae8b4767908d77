"""A report as a small piece of HTML, for notebooks."""

from html import escape

from torchport.report import phrases
from torchport.report.model import Report

WORST = 12
_COLOURS = {"pass": "#1a7f37", "fail": "#cf222e"}


def render(report: Report) -> str:
    """The verdict, the culprit and the worst layers. Every text from outside is escaped."""
    parts = [_verdict(report)]
    if report.first_divergence is not None:
        divergence = report.first_divergence
        source = f" at {divergence.source}" if divergence.source else ""
        parts.append(
            f"<p>Culprit: <b>{escape(divergence.layer)}</b> ({escape(divergence.type)})"
            f"{escape(source)}<br>{escape(phrases.culprit(divergence))}</p>"
        )
    parts.append(_table(report))
    return f"<div>{''.join(parts)}</div>"


def _verdict(report: Report) -> str:
    colour = _COLOURS.get(report.status, "#9a6700")
    word = f'<b style="color: {colour}">{phrases.WORDS[report.status]}</b>'
    return f"<p>{word} {escape(phrases.headline(report))}</p>"


def _table(report: Report) -> str:
    headings = ("Layer", "Type", "Own error", "of limit", "Chained", "")
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    rows = []
    for layer in report.worst_layers(WORST):
        cells = (
            layer.name,
            layer.type.rpartition(".")[2],
            phrases.largest(layer.own),
            phrases.share_of_limit(layer.own),
            phrases.largest(layer.chained),
            phrases.verdict(layer),
        )
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
