"""Tests of candidates: `assert_parity` in the manner of `torch.testing.assert_close`, layer by layer.

In: a reference, a candidate and inputs. Out: a report, or an error that names the layer that is wrong by itself.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchport.candidates.backward import compare_gradients
from torchport.candidates.forward import compare_forward
from torchport.candidates.left_out import is_noted, named
from torchport.errors import ParityError, UsageError
from torchport.parity.result import Divergence, Measured
from torchport.report import phrases
from torchport.runs.folder import REPORT_FILE
from torchport.runs.report import Report

if TYPE_CHECKING:
    import torch

    from torchport.candidates.names import Map

__all__ = ["assert_parity", "compare_gradients", "compare_models"]
_CAUSE = ("operation", "computes", "suggest", "snippet")
"""The facts about a culprit that an explanation adds."""


def assert_parity(
    reference: torch.nn.Module,
    candidate: Any,
    args: tuple[Any, ...] | list[Any] | torch.Tensor,
    kwargs: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    layers: bool = True,
    gradients: bool = False,
    map: Map | None = None,
    msg: str | None = None,
    out: str | Path | None = None,
    explain: bool = True,
    arithmetic: str = "float32",
    state: bool = False,
) -> Report:
    """Raises a ParityError, which is an AssertionError, unless the candidate computes what the reference computes.

    The candidate is another module, a function, or a `torchport.Port`. The report is that of the forward pass. With
    `gradients`, those are compared as well, after it, and its notes are also theirs. `out` is a directory to keep the
    report, the traces and snippets of failing layers in. If a layer fails, `explain` looks for the operation and the
    cause. `arithmetic` is the class in which the candidate may compute: by default float32, with sums in any order.
    With `state`, the buffers and inputs that the forward pass writes to are compared, too.
    """
    __tracebackhide__ = True
    if gradients and _is_port(candidate):
        raise UsageError("TP0801", "a port computes no gradients", fix="leave gradients=True out")
    options: dict[str, Any] = {"rtol": rtol, "atol": atol, "layers": layers, "map": map}
    options |= {"explain": explain, "arithmetic": arithmetic, "state": state}
    report = compare_models(reference, candidate, args, kwargs, **options, out=out)
    raise_unless_proven(report, msg)
    if gradients:
        place = None if out is None else Path(out) / "gradients"
        backward = compare_gradients(reference, candidate, args, kwargs, **options, out=place)
        raise_unless_proven(backward, msg)
        return report.model_copy(update={"notes": tuple(dict.fromkeys((*report.notes, *backward.notes)))})
    return report


def compare_models(
    reference: torch.nn.Module,
    candidate: Any,
    args: tuple[Any, ...] | list[Any] | torch.Tensor,
    kwargs: Mapping[str, Any] | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    layers: bool = True,
    map: Map | None = None,
    out: str | Path | None = None,
    explain: bool = True,
    arithmetic: str = "float32",
    state: bool = False,
) -> Report:
    """The report that `assert_parity` judges by, whatever its verdict."""
    if not _is_port(candidate):
        options: dict[str, Any] = {"rtol": rtol, "atol": atol, "layers": layers, "map": map}
        options |= {"explain": explain, "arithmetic": arithmetic, "state": state}
        return compare_forward(reference, candidate, args, kwargs, **options, out=out)
    if map is not None or not layers or state:
        raise UsageError(
            "TP0801",
            "a port is compared at every layer by its own names and writes to no state: "
            "no map=, no layers=False, no state=True",
        )
    report: Report = replace(candidate, model=reference).check(
        args, kwargs, rtol=rtol, atol=atol, explain=explain
    )
    if out is not None:
        report.write(Path(out) / REPORT_FILE)
    return report


def _is_port(candidate: Any) -> bool:
    porting = sys.modules.get("torchport.porting.port")  # Whoever has a port has imported it.
    return porting is not None and isinstance(candidate, porting.Port)


def raise_unless_proven(report: Report, msg: str | None = None) -> None:
    """Raises with the culprit, the numbers and the rule in the message, or with `msg`."""
    __tracebackhide__ = True
    divergence = report.first_divergence
    if report.passed or divergence is None:
        report.raise_for_divergence()
        return
    text = describe(report) if msg is None else msg
    raise ParityError("TP0701", text, where=divergence.source)


def describe(report: Report) -> str:
    """The verdict in a few lines: the culprit, how wrong it is, the cause, and what was not compared."""
    known: list[tuple[str, str]] = []
    if report.first_divergence is not None:
        known += _culprit(report.first_divergence)
        known += [(label, text) for label, text in phrases.facts(report) if label in _CAUSE]
    if report.outputs is not None:
        known.append(("outputs", phrases.outputs(report.outputs)))
    known += [("but", text) for text in (*_left_out(report), *report.notes)]
    if report.report is not None:
        known.append(("report", report.report))
    judged = [layer for layer in report.layers if layer.own is not None or not layer.passed]
    agree = sum(layer.passed for layer in judged)
    lines = [f"  {label:<9}  {text}" for label, text in known]
    measured = [f"  {said}"] if (said := phrases.measure(report)) is not None else []
    last = f"  {agree} of {len(judged)} layers agree; start with the culprit"
    return "\n".join([phrases.headline(report), *measured, *lines, last])


def _culprit(divergence: Divergence) -> list[tuple[str, str]]:
    known = [
        ("culprit", f"{divergence.place} ({divergence.type})"),
        ("what", phrases.culprit(divergence)),
    ]
    measured = divergence.metrics
    if measured is None or measured.incomparable is not None:
        return known
    known.append(("error", f"{phrases.error(measured)} (rule: {measured.rule})"))
    return [*known, *_distance(measured)]


def _distance(measured: Measured) -> list[tuple[str, str]]:
    noise = measured.noise
    if noise is None or math.isnan(noise.candidate_rms):
        return []
    candidate, eager = (
        f"max {phrases.number(largest)}, rms {phrases.number(rms)}"
        for largest, rms in ((noise.candidate_max, noise.candidate_rms), (noise.floor_max, noise.floor_rms))
    )
    return [("truth", f"the candidate is {candidate} away from float64, eager PyTorch {eager}")]


def _left_out(report: Report) -> list[str]:
    """What was not compared and is in no note, by the reason why."""
    by_reason: dict[str, list[str]] = {}
    for layer in report.layers:
        if layer.passed and layer.uncompared is not None and not is_noted(layer):
            by_reason.setdefault(layer.uncompared, []).append(layer.name)
    return [f"{reason} ({len(names)}: {named(names)})" for reason, names in by_reason.items()]
