"""What quantising cost, on the terminal: a row for each scheme, then the layers of each, worst first."""

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from torchport.quant.results import Drift, LayerDrift, QuantReport, SchemeDrift

LAYERS = 8


def render(report: QuantReport, console: Console, *, everything: bool = False) -> None:
    """Prints a report: the schemes, the layers that drift most (or all of them), and what stays floats."""
    _headline(report, console)
    if report.schemes or report.plan is not None:
        _schemes(report, console)
    for scheme in report.schemes:
        _layers(scheme, console, everything)
    _sensitivity(report, console, everything)
    _plan(report, console)
    _floats(report, console)
    for note in report.notes:
        console.print(Text(f"\n{note}"))
    if report.report is not None:
        console.print(f"\nReport  {report.report}")


def _headline(report: QuantReport, console: Console) -> None:
    word, style = {
        "done": ("DONE", "bold green"),
        "unproven": ("UNPROVEN", "bold red"),
        "missed": ("MISSED", "bold red"),
    }[report.status]
    said = f"{report.model} in {len(report.schemes)} scheme{'' if len(report.schemes) == 1 else 's'}"
    base = "" if report.port is None else f"; the port without blocks is off by rms {report.port.rmse:.1e}"
    console.print(Text.assemble((word, style), "  ", (f"{said}{base}", "bold")), soft_wrap=True)


def _schemes(report: QuantReport, console: Console) -> None:
    with_logits = any(scheme.logits is not None for scheme in report.schemes)
    headings = ["MB", "Bits", "Output MSE", "SQNR", "Cosine", *(["KL", "Top 1"] if with_logits else [])]
    table = _table("Scheme", headings)
    rows: list[tuple[str, Sequence[str]]] = []
    if report.port is not None:
        rows.append(("floats", (_megabytes(report.float_bytes), "32", *_outputs(report.port))))
    for scheme in report.schemes:
        rows.append((scheme.scheme, _cells(scheme)))
    if report.plan is not None and report.plan.drift is not None:
        rows.append(("plan", _cells(report.plan.drift)))
    for name, cells in rows:
        table.add_row(Text(name), *cells, *([""] * (len(headings) - len(cells))))
    console.print(Padding(table, (1, 0, 0, 0)))


def _cells(scheme: SchemeDrift) -> tuple[str, ...]:
    logits = scheme.logits
    shown = () if logits is None else (f"{logits.kl:.2g}", f"{100 * logits.top1:.1f} %")
    return (_megabytes(scheme.bytes), f"{scheme.bits:.2f}", *_outputs(scheme.outputs), *shown)


def _layers(scheme: SchemeDrift, console: Console, everything: bool) -> None:
    ranked = sorted(scheme.layers, key=_own_sqnr)
    shown = list(scheme.layers) if everything else ranked[:LAYERS]
    if not shown:
        return
    title = f"{scheme.scheme}: {'layers' if everything else 'worst layers by own drift'}"
    table = _table(title, ["Format", "Weight", "Own", "Chained", "Own RMS", "Cosine"])
    for layer in shown:
        own, chained = layer.own, layer.chained
        table.add_row(
            Text(layer.layer or layer.weight, overflow="fold"),
            layer.format,
            _db(layer.weight_sqnr_db),
            "-" if own is None else _db(own.sqnr_db),
            "-" if chained is None else _db(chained.sqnr_db),
            "-" if own is None else f"{own.rmse:.2g}",
            "-" if chained is None else f"{chained.cosine:.6f}",
        )
    console.print(Padding(table, (1, 0, 0, 0)))
    if len(scheme.layers) > len(shown):
        console.print(f"and {len(scheme.layers) - len(shown)} more; --all shows every layer")
    if scheme.floats:
        names = f"{', '.join(scheme.floats[:4])}{' …' if len(scheme.floats) > 4 else ''}"
        console.print(Text(f"in no blocks of {scheme.scheme}: {names}"))
    notes = {layer.note for layer in scheme.layers if layer.note is not None}
    for note in sorted(notes):
        others = [layer.weight for layer in scheme.layers if layer.note == note]
        console.print(Text(f"{note}: {', '.join(others[:4])}{' …' if len(others) > 4 else ''}"))


def _own_sqnr(layer: LayerDrift) -> float:
    """By which layers are ranked; one whose drift is not known comes first."""
    if layer.own is None or layer.own.sqnr_db != layer.own.sqnr_db:
        return float("-inf")
    return layer.own.sqnr_db


def _sensitivity(report: QuantReport, console: Console, everything: bool) -> None:
    if not report.sensitivity:
        return
    shown = report.sensitivity if everything else report.sensitivity[:LAYERS]
    table = _table("Alone in blocks", ["Format", "MB", "Output MSE"])
    for one in shown:
        name = Text(one.layer or one.weight, overflow="fold")
        table.add_row(name, one.format, _megabytes(one.bytes), f"{one.mse:.2e}")
    console.print(Padding(table, (1, 0, 0, 0)))
    if len(report.sensitivity) > len(shown):
        console.print(f"and {len(report.sensitivity) - len(shown)} more; --all shows every weight")


def _plan(report: QuantReport, console: Console) -> None:
    plan = report.plan
    if plan is None:
        return
    word, style = ("kept to", "bold green") if plan.met else ("not kept to", "bold red")
    console.print(Text.assemble("\nPlan for ", plan.asked, ": ", (word, style)))
    if plan.note is not None:
        console.print(Text(plan.note), soft_wrap=True)
    if plan.drift is not None:
        counts = Counter(layer.format for layer in plan.drift.layers)
        mix = ", ".join(f"{count} in {form}" for form, count in counts.most_common())
        console.print(Text(f"{mix or 'all floats'}; the file is {plan.drift.file}"), soft_wrap=True)


def _floats(report: QuantReport, console: Console) -> None:
    if not report.floats:
        return
    table = _table("Stay floats", ["Weights", "MB"])
    for left in report.floats:
        table.add_row(Text(left.reason), str(len(left.weights)), _megabytes(left.bytes))
    console.print(Padding(table, (1, 0, 0, 0)))


def _table(first: str, headings: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column(first, overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _outputs(drift: Drift) -> tuple[str, str, str]:
    return f"{drift.mse:.2e}", _db(drift.sqnr_db), f"{drift.cosine:.7f}"


def _db(value: float) -> str:
    return "exact" if value == float("inf") else f"{value:.1f} dB"


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.2f}"
