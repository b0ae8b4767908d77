"""What a report has found: one finding for what goes wrong in the same way in several places, and its cause in words.

In: a report. Out: what every renderer says first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torchport.parity.result import Divergence, Layer, Operation
from torchport.runs.report import Report

_AS_MUCH = 2.0
"""Errors that are no further apart than this factor are as large, for layers of which no cause is known."""


@dataclass(frozen=True)
class Finding:
    """Layers that fail at the same value of the same class, by the same cause or at least by about as much."""

    layers: tuple[Layer, ...]
    """In the order of the report; never empty."""

    @property
    def layer(self) -> Layer:
        """The place to look at first."""
        return self.layers[0]

    @property
    def others(self) -> tuple[Layer, ...]:
        return self.layers[1:]

    @property
    def is_one_fault(self) -> bool:
        """Whether one cause is known to explain every layer, so that it is one fault in so many places."""
        return bool(self.layer.cause) and all(layer.cause == self.layer.cause for layer in self.others)


def findings(report: Report) -> tuple[Finding, ...]:
    """The layers that fail, those that are alike together; the culprit's finding is the first."""
    found: list[list[Layer]] = []
    for group in of_one_class(report):
        alike: list[list[Layer]] = []
        for layer in group:
            place = next((other for other in alike if _are_alike(other[0], layer)), None)
            alike.append([layer]) if place is None else place.append(layer)
        found += alike
    return tuple(Finding(tuple(layers)) for layers in found)


def of_one_class(report: Report) -> list[list[Layer]]:
    """The layers that fail, those at the same value of the same class together; the culprit's group is the first."""
    by_name = {layer.name: layer for layer in report.layers}
    culprit = None if report.first_divergence is None else report.first_divergence.layer
    groups: dict[tuple[str, ...], list[Layer]] = {}
    failing = [layer for layer in report.layers if layer.fails]
    for layer in sorted(failing, key=lambda one: one.name != culprit):
        groups.setdefault(_fault(layer, by_name), []).append(layer)
    return list(groups.values())


def _are_alike(first: Layer, second: Layer) -> bool:
    """Whether one cause explains both; where none is known, whether both are wrong by about as much."""
    if first.cause and second.cause:
        return first.cause == second.cause
    if first.cause is not None and second.cause is not None and first.cause != second.cause:
        return False
    one, other = _size(first), _size(second)
    return one == other or (min(one, other) > 0 and max(one, other) <= _AS_MUCH * min(one, other))


def _size(layer: Layer) -> float:
    """The error as a share of what the values are, by RMS; infinite if there is no such number."""
    own = layer.own
    if own is None or own.incomparable is not None or not own.golden_rms > 0:
        return math.inf
    size = own.rmse / own.golden_rms
    return math.inf if math.isnan(size) else size


def _fault(layer: Layer, by_name: dict[str, Layer]) -> tuple[str, ...]:
    """What two layers have in common if they fail alike: the class, the value that is wrong, and whose part they are.

    A layer of torch itself is no class of the model. Its fault is in what the class around it makes of it.
    """
    wrong = layer.own.key if layer.failure is None and layer.own is not None else None
    key = layer.failure.key if layer.failure is not None else wrong or layer.name
    value = key.removeprefix(layer.name) if key.startswith(layer.name) else key
    holder = by_name.get(layer.parent or "")
    if not layer.type.startswith("torch."):
        return layer.type, value
    if holder is None:
        return (layer.name,)
    return holder.type, layer.name.partition("#")[0].removeprefix(f"{_path(holder)}."), layer.type, value


def _path(layer: Layer) -> str:
    """The name of a layer without the number of its call."""
    return layer.name.partition("#")[0]


def cause(report: Report) -> str | None:
    """The cause of a failure in words, with the function and the line; None if none was found."""
    culprit = report.first_divergence
    if culprit is None or not culprit.suggestions:
        return None
    best, operation = culprit.suggestions[0], culprit.operation
    subject = short_name(operation) if operation is not None and best.node == operation.node else None
    words = best.text if subject is None or subject in best.text.split() else f"{subject}: {best.text}"
    return f"{words}, in {_function(culprit)}"


def short_name(operation: Operation) -> str:
    """`gelu` for `aten.gelu.default`."""
    parts = operation.op.split(".")
    return parts[1] if len(parts) > 1 else operation.op


def _function(culprit: Divergence) -> str:
    """The function that has the operation, if it is known, or else the layer."""
    if culprit.operation is not None and culprit.operation.function is not None:
        return culprit.operation.function
    return f"{culprit.place} ({culprit.type.rpartition('.')[2]})"


def line_of_fault(culprit: Divergence) -> str | None:
    """The line of the operation that is wrong, or else the one that calls the layer."""
    operation = culprit.operation
    return operation.source if operation is not None and operation.source else culprit.source
