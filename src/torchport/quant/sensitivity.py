"""How much each weight matters: it alone is put in blocks, the port runs, and its output is compared.

From that follows what every other format would cost: the error of an output grows as the error of the weight's product
does, which is known for all formats without running.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from torchport.blocks.formats import FORMATS, rounded, why_not
from torchport.blocks.gguf import nbytes_of
from torchport.errors import QuantError
from torchport.quant.chosen import Candidate
from torchport.quant.measuring import Subject
from torchport.quant.planning import Choice
from torchport.quant.results import SchemeDrift, Sensitivity
from torchport.quant.storing import Importance

SAMPLE = 1 << 17
"""Weights of a matrix by which the error of a format is estimated."""
PROBES = ("q4_0", "q8_0")

Measure = Callable[[Sequence[tuple[str, dict[str, str]]]], list[SchemeDrift]]
"""Measures several mixes, each with its name; how, and how many at a time, is the engine's affair."""


def sensitivities(subject: Subject, measure: Measure, base: float) -> list[Sensitivity]:
    """Each weight alone in 4 bits, the worst first; `base` is the error of the port without blocks."""
    probes = [(name, probe_of(candidate)) for name, candidate in subject.chosen.candidates.items()]
    tasks = [(f"only-{name}", {name: form}) for name, form in probes if form is not None]
    found = measure(tasks)
    result = []
    for (_, mix), drift in zip(tasks, found, strict=True):
        ((name, form),) = mix.items()
        candidate = subject.chosen.candidates[name]
        if drift.outputs.mse != drift.outputs.mse:
            raise QuantError("TP0350", f"with {name} in {form} the model gives NaN", where=name)
        result.append(
            Sensitivity(
                weight=name,
                layer=candidate.layer,
                format=form,
                bytes=nbytes_of(form, candidate.shape),
                mse=max(drift.outputs.mse - base, 0.0),
            )
        )
    return sorted(result, key=lambda one: -one.mse)


def probe_of(candidate: Candidate) -> str | None:
    """The format that a weight is probed in; None if its rows fit none."""
    return next((form for form in PROBES if why_not(form, candidate.shape[1]) is None), None)


def choices_of(
    subject: Subject, found: Sequence[Sensitivity], importance: Importance, *, by_importance: bool
) -> Mapping[str, list[Choice]]:
    """What each weight would cost in each format that fits it, and as floats."""
    result: dict[str, list[Choice]] = {}
    for one in found:
        candidate = subject.chosen.candidates[one.weight]
        columns = importance.get(one.weight)
        rows = _sampled(subject.weights.read(one.weight).numpy())
        probed = product_error(one.weight, rows, one.format, columns, by_importance)
        result[one.weight] = [Choice("f32", nbytes_of("f32", candidate.shape), 0.0)]
        for form in FORMATS.values():
            if why_not(form.name, candidate.shape[1]) is None:
                share = (
                    product_error(one.weight, rows, form.name, columns, by_importance) / probed
                    if probed
                    else 0.0
                )
                nbytes = nbytes_of(form.name, candidate.shape)
                result[one.weight].append(Choice(form.name, nbytes, one.mse * share))
    return result


def product_error(
    name: str, rows: np.ndarray, form: str, importance: np.ndarray | None, by_importance: bool
) -> float:
    """The mean square error of what a matrix is multiplied to, up to a factor that is the same for all formats."""
    made = rounded(name, rows, form, importance if by_importance else None)
    squares = np.square((made - rows).astype(np.float64))
    return float((squares if importance is None else squares * importance).mean())


def _sampled(rows: np.ndarray) -> np.ndarray:
    step = max(1, rows.size // SAMPLE)
    return np.ascontiguousarray(rows[::step])
