"""The facts that the dashboard shows on one layer, on TODOs and on an error, as rich renderables."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from torchport.errors import TorchportError
from torchport.parity.result import Divergence, Layer, Measured
from torchport.report import phrases
from torchport.report.places import shown
from torchport.runs.report import Report

PASS, FAIL, NOTHING, CULPRIT = "✓", "✗", "·", "!"


def sign(layer: Layer) -> str:
    """The sign for a layer that passed, failed, or has nothing of its own to judge or nothing that could prove it."""
    if layer.fails:
        return FAIL
    return NOTHING if layer.own is None or layer.unproven else PASS


def of_layer(layer: Layer, culprit: Divergence | None, also: str = "") -> RenderableType:
    """Everything that is known of a layer; `culprit` is given if the layer is the culprit.

    `also` says in which other layers it goes wrong in the same way.
    """
    colour = {PASS: "green", FAIL: "red", NOTHING: ""}[sign(layer)]
    head = Text.assemble(
        (f"{sign(layer)} {layer.name}", f"bold {colour}"), "  ", (layer.type.rpartition(".")[2], "dim")
    )
    facts = [*(_of_culprit(culprit, also) if culprit else _why(layer)), *_numbers(layer)]
    parts: list[RenderableType] = [head, _grid(facts)]
    if culprit is not None and culprit.edits:
        parts += [Text("the source is not what was generated:", style="bold")]
        parts += [_coloured(hunk) for hunk in culprit.edits]
    return Group(*parts)


def of_nothing(report: Report) -> RenderableType:
    """The text for a report without layers: its TODOs, or that nothing is proven."""
    if not report.todos:
        return Text(phrases.headline(report))
    facts = [
        (todo.op, f"{todo.reason} ({', '.join(part for part in (todo.layer, shown(todo.source)) if part)})")
        for todo in report.todos
    ]
    return Group(Text(f"{len(report.todos)} to do", style="bold"), _grid(facts))


def of_error(error: BaseException) -> RenderableType:
    if not isinstance(error, TorchportError):
        return Text(f"{type(error).__name__}: {error}", style="bold red")
    facts = [("where", error.where), ("next", error.fix), ("more", f"torchport explain {error.code}")]
    head = Text(f"error {error.code}: {error.message}", style="bold red")
    return Group(head, _grid([(label, text) for label, text in facts if text]))


def _why(layer: Layer) -> Iterator[tuple[str, str]]:
    if layer.reason:
        yield "why", layer.reason


def _of_culprit(culprit: Divergence, also: str) -> Iterator[tuple[str, str]]:
    for suggestion in culprit.suggestions:
        yield "maybe", phrases.suggestion(suggestion)
    if (operation := culprit.operation) is not None:
        at = shown(operation.source)
        yield "op", f"{operation.op} at {at}" if at else operation.op
    if also:
        yield "also in", also
    yield "culprit", phrases.culprit(culprit)
    if culprit.kind == "returned":
        yield "where", phrases.behind(culprit)
        yield "handed over at", shown(culprit.source) or "unknown"
    if culprit.kind == "chained":
        yield "", "every layer is right by itself; here the drift is first too large"
    if operation is not None and operation.reason != culprit.reason:
        yield "op error", f"{operation.node}: {operation.reason}"
    if culprit.snippet is not None:
        yield "snippet", f"{shown(culprit.snippet)} (press o)"


def _numbers(layer: Layer) -> Iterator[tuple[str, str]]:
    own = layer.own
    yield "alone", phrases.error(own)
    if own is not None:
        yield (
            "of limit",
            f"{phrases.share_of_limit(own) or 'not judged'}{_distance(own)} ({own.rule or layer.rule or 'no rule'})",
        )
    yield "chained", phrases.error(layer.chained)
    if own is not None:
        yield from _of_value(own)
    yield "source", shown(layer.source) or "unknown"
    yield "type", layer.type
    if layer.parent is not None:
        yield "within", layer.parent


def _distance(own: Measured) -> str:
    limit = phrases.limit(own)
    return f": {phrases.own_error(own)} of {limit}" if limit else ""


def _of_value(own: Measured) -> Iterator[tuple[str, str]]:
    if own.noise is not None:
        noise = own.noise
        yield "floor", f"rms {phrases.number(noise.floor_rms)}, max {phrases.number(noise.floor_max)}"
    yield "shape", _described(own.golden_shape, own.golden_dtype)
    if (own.candidate_shape, own.candidate_dtype) != (own.golden_shape, own.golden_dtype):
        yield "port has", _described(own.candidate_shape, own.candidate_dtype)
    if own.incomparable is None:
        yield "mean", f"{phrases.number(own.mean_abs)}; relative at most {phrases.number(own.max_rel)}"
    if own.nan_mismatches or own.inf_mismatches:
        yield "not finite", f"NaN differs at {own.nan_mismatches}, Inf at {own.inf_mismatches} places"
    yield "value", own.key


def _described(shape: tuple[int, ...], dtype: str) -> str:
    return f"{list(shape)} {dtype}"


def _coloured(hunk: str) -> Text:
    """A hunk of a diff in colour; removed and added lines also have their signs."""
    lines = [Text(line, style={"-": "red", "+": "green"}.get(line[:1], "dim")) for line in hunk.splitlines()]
    return Text("\n").join(lines)


def _grid(facts: list[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in facts:
        table.add_row(Text(label), Text(text))
    return table
