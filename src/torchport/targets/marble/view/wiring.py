"""The wiring of one group for the page: whose values arrive, by what pattern, and which synapses are listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from torchport.errors import ConvertError
from torchport.targets.marble import sparse
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.core.views import count_in
from torchport.targets.marble.groups import Group
from torchport.targets.marble.view.packed import ids_of, packed
from torchport.targets.marble.view.patterns import Lookup, Pattern, biases_of, pattern_of

MOST_LISTED = 300_000
"""Synapses of one group that are listed one by one."""
MOST_ASKED = 20_000
"""Neurons of one group that are asked for their synapses one by one."""
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Wiring:
    """The synapses into a group: those of its pattern, and those that are listed."""

    count: int | None
    """None if it is not known."""
    inputs: list[dict[str, Any]]
    """The shape of what arrives at each input of its own work, and the ids of the neurons that give it."""
    sources: list[str]
    """The groups whose values arrive."""
    pattern: Pattern | None
    bias: Lookup | float | None
    listed: dict[str, Any] | None
    is_shown: bool
    """Whether the page can show all synapses."""


def wiring_of(version: Version, group: Group) -> Wiring:
    arriving = version.arrivals.at(group.name)
    pattern = pattern_of(version, group)
    own = [{"shape": list(ids.shape), "ids": ids_of(ids)} for ids in arriving[: len(group.own_inputs)]]
    if pattern is not None and any(one["ids"] is None for one in own):
        pattern, own = None, []
    listed = _added(version, group, arriving) if pattern is not None else _one_by_one(version, group)
    return Wiring(
        count=_if_known(lambda: count_in(version, group)),
        inputs=own if pattern is not None else [],
        sources=_groups(version, arriving),
        pattern=pattern,
        bias=biases_of(version, group),
        listed=listed,
        is_shown=(listed is not None or not sparse.has_added(group))
        if pattern is not None
        else listed is not None,
    )


def _if_known(asked: Callable[[], Answer]) -> Answer | None:
    """An answer about synapses, or None if it is not known which ones the work of the group has."""
    try:
        return asked()
    except ConvertError:
        return None


def _groups(version: Version, arriving: list[Tensor]) -> list[str]:
    """The groups that some ids belong to, in the order of their ids."""
    groups = sorted((one for one in version.groups.values() if len(one.ids)), key=lambda one: one.first)
    firsts = np.array([group.first for group in groups])
    found: set[int] = set()
    for ids in arriving:
        if not ids.numel():
            continue
        ends = np.searchsorted(firsts, [int(ids.min()), int(ids.max())], "right")
        if ends[0] != ends[1]:
            ends = np.flatnonzero(np.bincount(np.searchsorted(firsts, ids.reshape(-1).numpy(), "right")))
        found |= {int(end) for end in ends}
    return [groups[end - 1].name for end in sorted(found - {0})]


def _added(version: Version, group: Group, arriving: list[Tensor]) -> dict[str, Any] | None:
    """The synapses that were added to those of the group's own work."""
    arrays = version.arrays_of(group)
    if sparse.ROW not in arrays or len(arrays[sparse.WEIGHT]) > MOST_LISTED:
        return None
    rows = sparse.Rows.of({purpose: array.cpu() for purpose, array in arrays.items()})
    given = [ids.reshape(-1) for ids in arriving[len(group.own_inputs) :]]
    source = torch.cat(given)[rows.source] if given else rows.source
    return _listed(len(group.ids), rows.target, source, rows.weight, rows.number)


def _one_by_one(version: Version, group: Group) -> dict[str, Any] | None:
    """All synapses of a group that has no pattern, if they are few."""
    there = [id for id in group.ids if id - group.first not in group.removed]
    first = _if_known(lambda: version.into(there[0]))
    if first is None or len(first) * len(there) > MOST_LISTED or len(there) > MOST_ASKED:
        return None
    found = [version.into(neuron) for neuron in there]
    if sum(len(one) for one in found) > MOST_LISTED:
        return None
    source, target, number, weight = (
        torch.cat([getattr(one, name).cpu() for one in found])
        for name in ("source", "target", "number", "weight")
    )
    return _listed(len(group.ids), target - group.first, source, weight, number)


def _listed(neurons: int, target: Tensor, source: Tensor, weight: Tensor, number: Tensor) -> dict[str, Any]:
    """Rows of synapses: where the row of each neuron begins, and the sources, weights and numbers."""
    order = torch.argsort(target, stable=True)
    row = np.zeros(neurons + 1, dtype=np.int64)
    row[1:] = torch.bincount(target, minlength=neurons).cumsum(0).numpy()
    return {
        "row": packed(row, "<i4"),
        "source": packed(source[order].numpy(), "<i4"),
        "weight": packed(weight[order].double().numpy(), "<f8"),
        "number": packed(number[order].numpy(), "<i4"),
    }
