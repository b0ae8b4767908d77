"""The sentences and numbers that every renderer of a report shows in the same words."""

import math

from torchport.parity.result import Divergence, Layer, Measured
from torchport.report.model import Report

WORDS = {"pass": "PASS", "fail": "FAIL", "unsupported": "UNSUPPORTED", "error": "ERROR"}


def headline(report: Report) -> str:
    """The verdict in one line: how many layers agree, by which rule."""
    ported = f"{report.model} to {report.target}"
    judged = [layer for layer in report.layers if layer.own is not None or not layer.passed]
    failed = [layer for layer in judged if not layer.passed]
    rule = f" ({report.rule})" if report.rule else ""
    if report.status == "pass":
        return f"{ported}: all {_layers(len(judged))} agree with PyTorch{rule}"
    if report.status == "unsupported":
        return f"{ported}: {_operations(len(report.todos))} nothing maps"
    if failed:
        return f"{ported}: {len(failed)} of {_layers(len(judged))} diverge{rule}"
    if report.first_divergence is not None:
        return f"{ported}: every layer agrees, but the outputs drift too far{rule}"
    if report.todos:
        return f"{ported}: {_operations(len(report.todos))} nothing maps"
    return f"{ported}: nothing was compared, so nothing is proven"


def culprit(divergence: Divergence) -> str:
    """What is wrong at the culprit, and where it showed."""
    return f"{divergence.what}: {divergence.reason}"


def outputs(measured: Measured) -> str:
    """The error that users will see and, where it is too large, that it is."""
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
    """How much of what the rule allows an error takes up: below 1 passes."""
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


def verdict(layer: Layer) -> str:
    return "pass" if layer.passed else "FAIL"


def number(value: float) -> str:
    return f"{value:.2g}"


def seconds(report: Report) -> str:
    """What each step took, and all together."""
    taken = {name: value for name, value in report.seconds if value is not None}
    if not taken:
        return ""
    parts = ", ".join(f"{name} {value:.1f}" for name, value in taken.items())
    return f"{sum(taken.values()):.1f} s ({parts})"


def _layers(number: int) -> str:
    return f"{number} layer" if number == 1 else f"{number} layers"


def _operations(number: int) -> str:
    return f"{number} operation that" if number == 1 else f"{number} operations that"
