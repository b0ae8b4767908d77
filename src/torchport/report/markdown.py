"""A run as Markdown, for the summary of a CI job or a comment: the verdict, the culprit, the worst layers.

In: a `Run`. Out: GitHub's Markdown, small enough for a step summary (1 MiB): long parts are cut, and what is left out
is counted.
"""

import re
from collections.abc import Sequence

from torchport.report import phrases
from torchport.report.places import shown
from torchport.report.printable import printable
from torchport.runs.findings import findings
from torchport.runs.report import Report
from torchport.runs.run import Run

LAYERS = 30
TODOS = 50
SUGGESTIONS = 10
EDITED = 60_000
"""The most characters of edits that are shown."""
CELL = 400
"""The most characters of one name or sentence."""
_SIGNS = {"pass": "✅", "fail": "❌"}
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~$@&])")


def render(run: Run) -> str:
    report = printable(run.report)
    parts = [
        f"## {_SIGNS.get(report.status, '⚠️')} {phrases.word(report)}: {plain(phrases.headline(report))}",
        plain(phrases.measure(report) or ""),
        _outputs(report),
        "\n".join(f"> Note: {plain(note)}" for note in report.notes),
        _culprit(report),
        _edits(report),
        _worst_layers(report),
        _control_flow(report),
        _todos(report),
        f"Took {plain(seconds)}" if (seconds := phrases.seconds(report)) else "",
        "; ".join(plain(fact) for _, fact in phrases.cost(report)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _outputs(report: Report) -> str:
    return "" if report.outputs is None else f"Outputs: {plain(phrases.outputs(report.outputs))}"


def _culprit(report: Report) -> str:
    divergence = report.first_divergence
    if divergence is None:
        return ""
    known = phrases.facts(report)
    lines = [f"- **{label}**: {plain(fact)}" for label, fact in known if label != "suggest"]
    hypotheses = [fact for label, fact in known if label == "suggest"]
    lines += [f"- **suggestion**: {plain(fact)}" for fact in hypotheses[:SUGGESTIONS]]
    if more := left_out(len(hypotheses) - SUGGESTIONS, "suggestions"):
        lines.append(f"- {more}")
    behind = "the program behind " if divergence.kind == "returned" else ""
    heading = f"### Culprit: {behind}{code(divergence.layer)} ({code(divergence.type)})"
    return "\n".join([heading, "", *lines])


def _edits(report: Report) -> str:
    edits = report.first_divergence.edits if report.first_divergence else ()
    if not edits:
        return ""
    return f"The port's source is not what was generated:\n\n{diff(edits)}"


def diff(hunks: Sequence[str]) -> str:
    """Hunks of a unified diff as a block of code, as many whole lines as fit."""
    lines = [line for hunk in hunks for line in hunk.splitlines()]
    kept: list[str] = []
    room = EDITED
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    text = "\n".join(kept)
    fence = _fence(text, least=3)
    more = left_out(len(lines) - len(kept), "lines")
    return "\n\n".join([f"{fence}diff\n{text}\n{fence}", *([more] if more else [])])


def _worst_layers(report: Report) -> str:
    judged = [layer for layer in report.layers if phrases.is_judged(layer)]
    worst = phrases.worst(report, LAYERS)
    rows = [
        (
            phrases.verdict(layer),
            code(name),
            plain(layer.type.rpartition(".")[2]),
            phrases.own_error(layer.own),
            phrases.share_of_limit(layer.own),
            phrases.largest(layer.chained),
            "" if layer.own is None or layer.unproven else f"{layer.own.cosine:.7g}",
        )
        for layer, name in worst
    ]
    left = len(judged) - len(rows) - sum(len(one.others) for one in findings(report))
    heading = f"### {phrases.title_of_worst(worst)}"
    headings = ("", "Layer", "Type", "Own error", "of limit", "Chained", "Cosine")
    return table(heading, headings, rows, left_out(left, "layers"), right=3)


def _control_flow(report: Report) -> str:
    flows = report.control_flow[:LAYERS]
    rows = [
        (code(flow.layer), plain(flow.type), plain(flow.text), code(shown(flow.source) or ""))
        for flow in flows
    ]
    more = left_out(len(report.control_flow) - len(rows), "layers")
    return table("### Control flow", ("Layer", "Type", "Bodies", "Source"), rows, more)


def _todos(report: Report) -> str:
    rows = [
        (code(todo.op), code(todo.layer), code(shown(todo.source) or ""), plain(todo.reason))
        for todo in report.todos[:TODOS]
    ]
    headings = ("Operation", "Layer", "Source", "Why")
    more = left_out(len(report.todos) - len(rows), "operations")
    return table(f"### {len(report.todos)} to do", headings, rows, more)


def table(
    heading: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    more: str = "",
    right: int | None = None,
) -> str:
    """A table under its heading, then `more`; columns from `right` on hold numbers."""
    if not rows:
        return ""
    numbers = len(headings) if right is None else right
    rule = ["---" if column < numbers else "---:" for column in range(len(headings))]
    lines = ["| " + " | ".join(row) + " |" for row in (headings, rule, *rows)]
    return "\n".join([heading, "", *lines, *(["", more] if more else [])])


def left_out(count: int, things: str, place: str = "in report.json") -> str:
    return f"and {count} more {things}, all of them {place}" if count > 0 else ""


def plain(text: str) -> str:
    """Text in which nothing is markup, on one line."""
    return _SPECIAL.sub(r"\\\1", _short(text))


def code(text: str) -> str:
    """Text as code, which a table can hold: a pipe would end its cell."""
    inside = _short(text).replace("|", r"\|")
    if not inside:
        return ""
    fence = _fence(inside, least=1)
    space = " " * (inside[0] == "`" or inside[-1] == "`")
    return f"{fence}{space}{inside}{space}{fence}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CELL else f"{line[: CELL - 1]}…"


def _fence(text: str, least: int) -> str:
    """More backticks than there are in a row in `text`."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * (least if longest < least else longest + 1)
