"""Whether layers that fail at the same value of one class fail by the same cause: each is explained for itself.

In: a report, and what finds the hypotheses that explain a layer. Out: the report with the causes of such layers in
words that leave out which layer it is, so that the same words are the same fault.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from torchport.errors import TorchportError
from torchport.explain.noted_run import CANNOT_COMPUTE
from torchport.explain.suspect import Suspect
from torchport.parity.result import Layer, Suggestion
from torchport.runs.findings import of_one_class
from torchport.runs.report import Report

MOST = 48
"""So many layers are explained; a fault that is in more is said to be so of these alone."""


def with_causes(
    report: Report,
    suspect_of: Callable[[str, str], Suspect | None],
    explanations: Callable[[Suspect], tuple[Suggestion, ...]],
) -> Report:
    """The report with the cause of each layer that fails where others of its class do, the culprit's class first."""
    several = (layer for group in of_one_class(report) if len(group) > 1 for layer in group)
    causes = {layer.name: _cause(layer, suspect_of, explanations) for layer in islice(several, MOST)}
    layers = tuple(
        layer.model_copy(update={"cause": causes[layer.name]}) if layer.name in causes else layer
        for layer in report.layers
    )
    return report.model_copy(update={"layers": layers})


def _cause(
    layer: Layer,
    suspect_of: Callable[[str, str], Suspect | None],
    explanations: Callable[[Suspect], tuple[Suggestion, ...]],
) -> str:
    """The likeliest explanation; empty if there is none."""
    if layer.own is None:
        return ""
    try:
        suspect = suspect_of(layer.name, layer.own.key)
        found = () if suspect is None else explanations(suspect)
    except (TorchportError, *CANNOT_COMPUTE):
        return ""
    return found[0].text.replace(layer.name.partition("#")[0], "…") if found else ""
