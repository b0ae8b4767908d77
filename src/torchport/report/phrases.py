"""The sentences and numbers that every renderer of a report shows in the same words."""

import math
from decimal import ROUND_FLOOR, Decimal

from torchport.arithmetic.classes import find_arithmetic
from torchport.parity.result import Divergence, Layer, Measured, Operation, Suggestion
from torchport.runs.report import Report

WORDS = {"pass": "PASS", "fail": "FAIL", "unsupported": "UNSUPPORTED", "error": "ERROR"}


def headline(report: Report) -> str:
    """The verdict in one line: how many layers agree, by which rule."""
    ported = f"{report.model} to {report.target}"
    judged = [layer for layer in report.layers if is_judged(layer)]
    failed = [layer for layer in judged if not layer.passed]
    rule = f" ({report.rule})" if report.rule else ""
    if report.status == "pass":
        agree = "the 1 layer agrees" if len(judged) == 1 else f"all {len(judged)} layers agree"
        but = "" if report.random is None else ", but for what is random"
        return f"{ported}: {agree} with PyTorch{but}{rule}"
    if report.status == "unsupported":
        return f"{ported}: {_operations(len(report.todos))} nothing maps"
    if report.unproven:
        nan = "the 1 layer is" if len(judged) == 1 else f"{len(failed)} of {len(judged)} layers are"
        return f"{ported}: nothing is proven: {nan} NaN everywhere, in the original too{rule}"
    if failed:
        diverge = (
            "the 1 layer diverges" if len(judged) == 1 else f"{len(failed)} of {len(judged)} layers diverge"
        )
        return f"{ported}: {diverge}{rule}"
    if report.status == "error" and report.stopped is not None:
        return f"{ported}: {' '.join(report.stopped.split())}"
    if report.first_divergence is not None and report.first_divergence.kind == "returned":
        behind = report.first_divergence.layer
        return f"{ported}: every layer agrees, but the program gives something else than {behind}{rule}"
    if report.first_divergence is not None:
        return f"{ported}: every layer agrees, but the outputs drift too far{rule}"
    if report.todos:
        return f"{ported}: {_operations(len(report.todos))} nothing maps"
    if report.is_all_random:
        return f"{ported}: every output depends on random numbers, so nothing is proven"
    return f"{ported}: nothing was compared, so nothing is proven"


def culprit(divergence: Divergence) -> str:
    """The error of the culprit, and the call at which it showed."""
    return f"{divergence.what}: {divergence.reason}"


def facts(report: Report) -> list[tuple[str, str]]:
    """The facts about the culprit, each with its label, in the order in which to read them."""
    divergence = report.first_divergence
    if divergence is None:
        return []
    chained = next((one.chained for one in report.layers if one.name == divergence.layer), None)
    known = [("what", culprit(divergence))]
    if report.stopped is not None:
        known.append(("stopped", " ".join(report.stopped.split())))
    if divergence.kind == "returned":
        known.append(("where", behind(divergence)))
        chained = None if report.program is None else report.program.chained
    if divergence.kind in ("own", "returned"):
        known.append(("own error", error(divergence.metrics)))
    known += [("chained", error(chained)), ("source", divergence.source or "unknown")]
    if divergence.operation is not None:
        known.append(("operation", _operation(divergence.operation, divergence.reason)))
    if (computes := _arithmetic(report, divergence)) is not None:
        known.append(("computes", computes))
    known += [("suggest", suggestion(one)) for one in divergence.suggestions]
    if divergence.snippet is not None:
        known.append(("snippet", divergence.snippet))
    return known


def behind(divergence: Divergence) -> str:
    """Where to look if the model is right and what its program gives is not."""
    return f"behind the model: what {divergence.layer} gives is right, and what the program hands over is not"


def _arithmetic(report: Report, divergence: Divergence) -> str | None:
    """How the culprit computes, if a class of arithmetic explains its error."""
    name = next((one.arithmetic for one in report.layers if one.name == divergence.layer), None)
    return None if name is None else find_arithmetic(name).text


def _operation(found: Operation, said: str) -> str:
    """The operation at which the culprit first goes wrong, its line and, if that is not yet said, the reason."""
    place = f" at {found.source}" if found.source else ""
    reason = "" if found.reason == said else f": {found.reason}"
    return f"{found.op}{place}{reason}"


def suggestion(hypothesis: Suggestion) -> str:
    return f"{hypothesis.text} (explains {percent(hypothesis.explains)} of the error)"


def percent(share: float) -> str:
    """A share in percent, floored to a tenth, so that 100 % is always all of it."""
    tenths = Decimal(str(share)).quantize(Decimal("0.001"), ROUND_FLOOR)
    return f"{tenths * 100:.1f} %"


def outputs(measured: Measured) -> str:
    """The error of the outputs, which users will see, and whether it is too large."""
    if measured.passed or measured.incomparable is not None:
        return error(measured)
    return f"{error(measured)} ({measured.reason})"


def error(measured: Measured | None) -> str:
    """The size of an error, and where it is largest."""
    if measured is None:
        return "no value"
    if measured.incomparable is not None:
        return measured.incomparable
    at = "" if measured.worst_index is None else f" at {list(measured.worst_index)}"
    return f"max {number(measured.max_abs)}{at}, rms {number(measured.rmse)}, cosine {measured.cosine:.7g}"


def share_of_limit(measured: Measured | None) -> str:
    """The share of the rule's limit that an error takes up: below 1 passes."""
    if measured is None or measured.ratio is None:
        return ""
    ratio = measured.ratio
    if not math.isfinite(ratio):
        return "never"
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:.0f}" if ratio < 1e6 else f"{ratio:.1e}"


def largest(measured: Measured | None) -> str:
    if measured is None:
        return "none"
    return "-" if measured.incomparable is not None else number(measured.max_abs)


def is_judged(layer: Layer) -> bool:
    """Whether the layer computed something itself: a container that hands its input on has nothing to judge."""
    return layer.own is not None or not layer.passed


def verdict(layer: Layer) -> str:
    return "pass" if layer.passed else "FAIL"


def number(value: float) -> str:
    return f"{value:.2g}"


def seconds(report: Report) -> str:
    """What each step took, and all together."""
    if not report.seconds:
        return ""
    parts = ", ".join(f"{name} {taken:.1f}" for name, taken in report.seconds.items())
    return f"{sum(report.seconds.values()):.1f} s ({parts})"


def _operations(number: int) -> str:
    return f"{number} operation that" if number == 1 else f"{number} operations that"
