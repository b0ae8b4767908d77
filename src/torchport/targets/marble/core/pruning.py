"""Pruning: without the synapses of the smallest weights. Weights that synapses share stay shared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isfinite

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble import sparse
from torchport.targets.marble.core.adding import added_rows, with_rows
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.groups import MADE, Group, Kind

PRESENT = "present"


def prune(
    version: Version, fraction: float | None, below: float | None, layer: str | None
) -> tuple[Version, int]:
    """Without the weights whose magnitude is among the smallest share, or below a bound, and how many went."""
    groups = [group for group in version.groups.values() if _is_meant(group, layer)]
    _must_be_own(version, groups)
    if not groups:
        raise NeuronError(
            "TP0901", f"no layer {layer!r} has weights" if layer else "the graph has no weights"
        )
    rule = _rule(version, groups, fraction, below)
    total = 0
    for name in sorted({group.weights["weight"] for group in groups if "weight" in group.weights}):
        version, count = _pruned_array(version, name, rule)
        total += count
    for group in groups:
        version, count = _pruned_rows(version, version.groups[group.name], rule)
        total += count
    return version, total


@dataclass
class _Rule:
    """Weights below a magnitude go, and of those that have just that magnitude as many as are left to go."""

    bound: float
    equal: float

    def keeps(self, weights: Tensor) -> Tensor:
        size = weights.abs().double().reshape(-1)
        kept = ~(size <= self.bound)
        equal = (size == self.bound).nonzero()[:, 0]
        going = int(min(len(equal), self.equal))
        kept[equal[going:]] = True
        self.equal -= going
        return kept.reshape(weights.shape)


def _must_be_own(version: Version, groups: list[Group]) -> None:
    """Refuses weights that others have, too, for whom they are no synapses, or who were not meant."""
    meant = {group.name for group in groups}
    for name in {group.weights["weight"] for group in groups if "weight" in group.weights}:
        others = [
            group.layer or group.name
            for group in version.groups.values()
            if name in group.weights.values() and group.name not in meant
        ]
        if others:
            raise NeuronError(
                "TP0904",
                f"the weight {name} is also that of {others[0]}, which would change with it",
                fix="Prune other layers, by `layer`, or change single synapses.",
            )


def _is_meant(group: Group, layer: str | None) -> bool:
    has_weights = group.kind is Kind.WEIGHTED_SUM and (
        "weight" in group.weights or sparse.WEIGHT in group.weights
    )
    return has_weights and (layer is None or group.layer == layer or group.layer.startswith(f"{layer}."))


def _rule(version: Version, groups: list[Group], fraction: float | None, below: float | None) -> _Rule:
    if (fraction is None) == (below is None):
        raise NeuronError(
            "TP0904", "give either the fraction of the weights to prune, or the magnitude below which"
        )
    if below is not None:
        if not isfinite(below) or below < 0:
            raise NeuronError("TP0904", f"a magnitude is a number of at least 0, not {below}")
        return _Rule(below, 0)
    assert fraction is not None
    if not 0 <= fraction <= 1:
        raise NeuronError("TP0904", f"a fraction is between 0 and 1, not {fraction}")
    sizes = torch.cat(list(_sizes(version, groups)))
    count = round(fraction * len(sizes))
    bound = float(sizes.kthvalue(count).values) if count else -1.0
    return _Rule(bound, count - int((sizes < bound).sum()))


def _sizes(version: Version, groups: list[Group]) -> Iterator[Tensor]:
    """The magnitudes of the weights that are still there, each once."""
    done: set[str] = set()
    for group in groups:
        for purpose in ("weight", sparse.WEIGHT):
            name = group.weights.get(purpose)
            if name is None or name in done:
                continue
            done.add(name)
            size = version.arrays[name].abs().double()
            mask = group.weights.get(PRESENT) if purpose == "weight" else None
            yield size.reshape(-1) if mask is None else size[version.arrays[mask]]


def _pruned_array(version: Version, name: str, rule: _Rule) -> tuple[Version, int]:
    array = version.arrays[name]
    users = [group for group in version.groups.values() if group.weights.get("weight") == name]
    known = users[0].weights.get(PRESENT)
    before = torch.ones(array.shape, dtype=torch.bool) if known is None else version.arrays[known]
    present = before.clone()
    present[before] = rule.keeps(array[before])
    mask = f"{name}{MADE}{PRESENT}{version.number}"
    changed = torch.where(present, array, torch.zeros_like(array))
    for group in users:
        masked = replace(group, weights={**group.weights, PRESENT: mask})
        version = version.with_group(masked, is_same_work=True)
    return replace(version, arrays={**version.arrays, name: changed, mask: present}), int(
        before.sum() - present.sum()
    )


def _pruned_rows(version: Version, group: Group, rule: _Rule) -> tuple[Version, int]:
    if sparse.WEIGHT not in group.weights:
        return version, 0
    rows, inputs = added_rows(version, group)
    kept = rule.keeps(rows.weight)
    left = sparse.Rows(rows.target[kept], rows.source[kept], rows.weight[kept], rows.number[kept])
    return with_rows(version, group, left, inputs), int((~kept).sum())
