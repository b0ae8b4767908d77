"""The sentences and numbers that every renderer of a report shows in the same words."""

import math
from collections.abc import Sequence

from torchport.arithmetic.classes import find_arithmetic
from torchport.parity.percent import percent
from torchport.parity.result import Divergence, Layer, Measured, Operation, Suggestion
from torchport.report.places import shown
from torchport.runs.findings import cause, findings, line_of_fault
from torchport.runs.report import Report

WORDS = {"pass": "PASS", "fail": "FAIL", "unsupported": "UNSUPPORTED", "error": "ERROR"}


def word(report: Report) -> str:
    """The verdict in one word."""
    return "UNPROVEN" if report.unproven else WORDS[report.status]


def headline(report: Report, *, with_rule: bool = True) -> str:
    """The verdict in one line: the cause of a failure if it is known, or else how many layers agree, by which rule."""
    ported, known, culprit = f"{report.model} to {report.target}", cause(report), report.first_divergence
    if known is None or culprit is None:
        return f"{ported}: {_counted(report, with_rule)}"
    at = shown(line_of_fault(culprit))
    return f"{ported}: {known}{f', {at}' if at else ''}"


def measure(report: Report, *, with_rule: bool = True) -> str | None:
    """What comes below a headline that says the cause: how many layers diverge; None if the headline says that."""
    return None if cause(report) is None else _counted(report, with_rule)


def _counted(report: Report, with_rule: bool) -> str:
    """How many layers agree, by which rule."""
    judged = [layer for layer in report.layers if is_judged(layer)]
    failed = [layer for layer in judged if layer.fails]
    rule = f" ({report.rule})" if report.rule and with_rule else ""
    if report.status == "pass":
        agree = "the 1 layer agrees" if len(judged) == 1 else f"all {len(judged)} layers agree"
        but = "" if report.random is None else ", but for what is random"
        return f"{agree} with PyTorch{but}{rule}"
    if report.status == "unsupported":
        return f"{_operations(len(report.todos))} nothing maps"
    if report.unproven:
        count = sum(layer.unproven for layer in judged)
        nan = "the 1 layer is" if len(judged) == 1 else f"{count} of {len(judged)} layers are"
        return f"nothing is proven: {nan} NaN everywhere, in the original too"
    if failed:
        return f"{_diverging(report, len(failed), len(judged))}{rule}"
    if report.status == "error" and report.stopped is not None:
        return " ".join(report.stopped.split())
    if report.first_divergence is not None and report.first_divergence.kind == "returned":
        behind = report.first_divergence.layer
        return f"every layer agrees, but the program gives something else than {behind}{rule}"
    if report.first_divergence is not None:
        return f"every layer agrees, but the outputs drift too far{rule}"
    if report.todos:
        return f"{_operations(len(report.todos))} nothing maps"
    if report.is_all_random:
        return "every output depends on random numbers, so nothing is proven"
    return "nothing was compared, so nothing is proven"


def _diverging(report: Report, failed: int, judged: int) -> str:
    """How many layers diverge, and in how many ways if that is fewer."""
    if judged == 1:
        return "the 1 layer diverges"
    found = findings(report)
    one = ", all in the same way" if found[0].is_one_fault else ", all of one class and by about as much"
    alike = "" if len(found) == failed else one if len(found) == 1 else f", in {len(found)} ways"
    return f"{failed} of {judged} layers diverge{alike}"


def culprit(divergence: Divergence) -> str:
    """The error of the culprit, and the call at which it showed."""
    return f"{divergence.what}: {divergence.reason}"


def facts(report: Report) -> list[tuple[str, str]]:
    """The facts about the culprit, each with its label, in the order in which to read them."""
    divergence = report.first_divergence
    if divergence is None:
        return []
    chained = next((one.chained for one in report.layers if one.name == divergence.layer), None)
    known = [("what", culprit(divergence)), *(("also in", places) for places in [also_in(report)] if places)]
    if report.stopped is not None:
        known.append(("stopped", " ".join(report.stopped.split())))
    if divergence.kind == "returned":
        known.append(("where", behind(divergence)))
        chained = None if report.program is None else report.program.chained
    if divergence.kind in ("own", "returned"):
        known.append(("alone", error(divergence.metrics)))
    known += [("chained", error(chained)), ("source", shown(divergence.source) or "unknown")]
    if divergence.operation is not None:
        known.append(("operation", _operation(divergence.operation, divergence.reason)))
    if (computes := _arithmetic(report, divergence)) is not None:
        known.append(("computes", computes))
    known += [("suggest", suggestion(one)) for one in divergence.suggestions]
    if divergence.snippet is not None:
        known.append(("snippet", shown(divergence.snippet) or divergence.snippet))
    return known


def also_in(report: Report) -> str:
    """The other layers of the culprit's class that go wrong at the same value; empty if there are none."""
    found = findings(report)
    culprit = report.first_divergence
    if culprit is None or not found or found[0].layer.name != culprit.layer:
        return ""
    return named([layer.name for layer in found[0].others])


def named(names: Sequence[str], most: int = 4) -> str:
    """The first names of a list, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def behind(divergence: Divergence) -> str:
    """Where to look if the model is right and what its program gives is not."""
    return f"behind the model: what {divergence.layer} gives is right, and what the program hands over is not"


def _arithmetic(report: Report, divergence: Divergence) -> str | None:
    """How the culprit computes, if a class of arithmetic explains its error."""
    name = next((one.arithmetic for one in report.layers if one.name == divergence.layer), None)
    return None if name is None else find_arithmetic(name).text


def _operation(found: Operation, said: str) -> str:
    """The operation at which the culprit first goes wrong, its line and, if that is not yet said, the reason."""
    at = shown(found.source)
    place = f" at {at}" if at else ""
    reason = "" if found.reason == said else f": {found.reason}"
    return f"{found.op}{place}{reason}"


def suggestion(hypothesis: Suggestion) -> str:
    return f"{hypothesis.text} (explains {percent(hypothesis.explains)} of the error)"


def outputs(measured: Measured) -> str:
    """The error of the outputs, which users will see, and whether it is too large."""
    if measured.passed or measured.incomparable is not None or math.isnan(measured.max_abs):
        return error(measured)
    return f"{error(measured)} ({measured.reason})"


def error(measured: Measured | None) -> str:
    """The size of an error, and where it is largest."""
    if measured is None:
        return "no value"
    if measured.incomparable is not None:
        return measured.incomparable
    beside = _not_finite(measured)
    where = f"NaN or Inf on one side only at {beside} of {measured.numel} places" if beside else ""
    if math.isnan(measured.max_abs):
        return where or "no element is finite in both"
    at = "" if measured.worst_index is None else f" at {list(measured.worst_index)}"
    largest = f"max {number(measured.max_abs)}{at}"
    finite = f"{largest}, rms {number(measured.rmse)}, cosine {measured.cosine:.7g}"
    return f"{where}, elsewhere {finite}" if where else finite


def _not_finite(measured: Measured) -> int:
    """The number of elements that are NaN or infinite on one side only."""
    return measured.nan_mismatches + measured.inf_mismatches


def share_of_limit(measured: Measured | None) -> str:
    """The share of the rule's limit that an error takes up: below 1 passes."""
    if measured is None or measured.ratio is None or measured.is_nan_everywhere:
        return ""
    ratio = measured.ratio
    if not math.isfinite(ratio):
        return "never"
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}" if ratio < 1e6 else f"{ratio:.1e}"


def largest(measured: Measured | None) -> str:
    """The largest error against what PyTorch computed."""
    if measured is None:
        return "none"
    return "-" if measured.incomparable is not None else number(measured.max_abs)


def worst(report: Report, most: int) -> list[tuple[Layer, str]]:
    """The rows of a table of the worst layers, each with its name: layers that fail alike are one row."""
    found = {finding.layer.name: finding.others for finding in findings(report)}
    alike = {layer.name for others in found.values() for layer in others}
    rows = [layer for layer in report.worst_layers(len(report.layers)) if layer.name not in alike]
    return [(layer, f"{layer.name}{_and(found.get(layer.name, ()))}") for layer in rows[:most]]


def _and(others: Sequence[Layer]) -> str:
    return f" (and {len(others)} alike)" if others else ""


def own_error(measured: Measured | None) -> str:
    """The distance that the rule judges, of which `share_of_limit` is the share."""
    if measured is not None and _not_finite(measured):
        return "NaN"
    if measured is None or measured.incomparable is not None or measured.judged is None:
        return largest(measured)
    return number(measured.judged)


def limit(measured: Measured | None) -> str:
    """The largest own error that passes; empty if no number says so."""
    if measured is None or measured.judged is None or not measured.ratio or not math.isfinite(measured.ratio):
        return ""
    return number(measured.judged / measured.ratio)


def allowed_error(layer: Layer) -> float | None:
    """What an element of a layer may be off, in its picture; None if no number says so."""
    own, picture = layer.own, layer.picture
    if picture is not None and picture.allowed is not None:
        return picture.allowed
    if own is None or not own.ratio or not math.isfinite(own.ratio) or not own.max_abs > 0:
        return None
    return own.max_abs / own.ratio


def is_judged(layer: Layer) -> bool:
    """Whether the layer computed something itself: a container that hands its input on has nothing to judge."""
    return layer.own is not None or not layer.passed


def verdict(layer: Layer) -> str:
    return "FAIL" if layer.fails else "unproven" if layer.unproven else "pass"


def title_of_worst(worst: Sequence[tuple[Layer, str]]) -> str:
    """The heading of a table with the rows that `worst` gives."""
    kinds = {verdict(layer) for layer, _ in worst}
    return (
        "Worst layers"
        if "FAIL" in kinds
        else "Unproven layers"
        if "unproven" in kinds
        else "Nearest to the limit"
    )


def number(value: float) -> str:
    return "NaN" if math.isnan(value) else f"{value:.2g}"


def seconds(report: Report) -> str:
    """What each step took, and all together."""
    if not report.seconds:
        return ""
    parts = ", ".join(f"{name} {taken:.1f}" for name, taken in report.seconds.items())
    return f"{sum(report.seconds.values()):.1f} s ({parts})"


def cost(report: Report) -> list[tuple[str, str]]:
    """What a run takes, of the port and of PyTorch, with labels; empty if it was not measured."""
    if report.cost is None:
        return []
    port, original = report.cost.port, report.cost.original
    threads = "1 thread" if port.threads == 1 else f"{port.threads} threads"
    beside = "" if original is None else f", PyTorch {_milliseconds(original.seconds)}"
    each = " each" if original is not None and original.threads == port.threads else ""
    known = [("speed", f"port {_milliseconds(port.seconds)}{beside} a run ({threads}{each}; indicative)")]
    if port.bytes is not None:
        other = None if original is None else original.bytes
        beside = f"; not to be compared with the {other / 1e6:.0f} MB of all of this Python" if other else ""
        known.append(("memory", f"port {port.bytes / 1e6:.0f} MB at most{beside}"))
    return known


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.2g} ms" if seconds < 0.0995 else f"{1000 * seconds:.0f} ms"


def _operations(number: int) -> str:
    return f"{number} operation that" if number == 1 else f"{number} operations that"
