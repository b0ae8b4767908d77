"""Pruning: without the synapses of the smallest weights. Weights that synapses share stay shared."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

import torch
from torch import Tensor

from torchport.errors import NeuronError
from torchport.targets.marble import sparse
from torchport.targets.marble.core.adding import added_rows, with_rows
from torchport.targets.marble.core.version import MADE, Version
from torchport.targets.marble.groups import Group, Kind

PRESENT = "present"


def prune(
    version: Version, fraction: float | None, below: float | None, layer: str | None
) -> tuple[Version, int]:
    """Without the weights whose magnitude is among the smallest share, or below a bound, and how many went."""
    groups = [group for group in version.groups.values() if _is_meant(group, layer)]
    if not groups:
        raise NeuronError(
            "TP0901", f"no layer {layer!r} has weights" if layer else "the graph has no weights"
        )
    bound = _bound(version, groups, fraction, below)
    total = 0
    for name in sorted({group.weights["weight"] for group in groups if "weight" in group.weights}):
        version, count = _pruned_array(version, name, bound)
        total += count
    for group in groups:
        version, count = _pruned_rows(version, version.groups[group.name], bound)
        total += count
    return version, total


def _is_meant(group: Group, layer: str | None) -> bool:
    has_weights = group.kind is Kind.WEIGHTED_SUM and (
        "weight" in group.weights or sparse.WEIGHT in group.weights
    )
    return has_weights and (layer is None or group.layer == layer or group.layer.startswith(f"{layer}."))


def _bound(version: Version, groups: list[Group], fraction: float | None, below: float | None) -> float:
    """Weights of at most this magnitude go."""
    if (fraction is None) == (below is None):
        raise NeuronError(
            "TP0904", "give either the fraction of the weights to prune, or the magnitude below which"
        )
    if below is not None:
        if not isfinite(below) or below < 0:
            raise NeuronError("TP0904", f"a magnitude is a number of at least 0, not {below}")
        return float(
            torch.nextafter(torch.tensor(below, dtype=torch.float64), torch.tensor(-1.0, dtype=torch.float64))
        )
    assert fraction is not None
    if not 0 <= fraction <= 1:
        raise NeuronError("TP0904", f"a fraction is between 0 and 1, not {fraction}")
    names = {group.weights[p] for group in groups for p in ("weight", sparse.WEIGHT) if p in group.weights}
    sizes = torch.cat([version.arrays[name].abs().reshape(-1).double() for name in sorted(names)])
    count = round(fraction * len(sizes))
    return -1.0 if count == 0 else float(sizes.kthvalue(count).values)


def _pruned_array(version: Version, name: str, bound: float) -> tuple[Version, int]:
    array = version.arrays[name]
    users = [group for group in version.groups.values() if group.weights.get("weight") == name]
    known = users[0].weights.get(PRESENT)
    before = torch.ones(array.shape, dtype=torch.bool) if known is None else version.arrays[known]
    present = before & (array.abs().double() > bound)
    mask = f"{name}{MADE}{PRESENT}{version.number}"
    changed = array * present
    for group in users:
        masked = replace(group, weights={**group.weights, PRESENT: mask})
        version = version.with_group(masked, is_same_work=True)
    return replace(version, arrays={**version.arrays, name: changed, mask: present}), int(
        before.sum() - present.sum()
    )


def _pruned_rows(version: Version, group: Group, bound: float) -> tuple[Version, int]:
    if sparse.WEIGHT not in group.weights:
        return version, 0
    rows, inputs = added_rows(version, group)
    kept: Tensor = rows.weight.abs().double() > bound
    left = sparse.Rows(rows.target[kept], rows.source[kept], rows.weight[kept], rows.number[kept])
    return with_rows(version, group, left, inputs), int((~kept).sum())
