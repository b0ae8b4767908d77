"""interim"""

from __future__ import annotations

from torchport.targets.marble.core.unrolled import ALONE, own_fan


def synapses_in(version, group):
    n = 0
    if group.own_inputs and group.work != ALONE and group.kind.has_neurons:
        n += own_fan(version, group, range(group.results[0].size)).count
    return n
