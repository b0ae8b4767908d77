"""The levels of a plain graph: each neuron is one level above the highest neuron that it receives from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from torchport.targets.marble.exchange.plain import Bools, Integers, Plain
from torchport.targets.marble.files.computable import refuse


def levels_of(plain: Plain, is_given: Bools) -> Iterator[Integers]:
    """The rows of each level in turn, above the neurons whose values are given. A cycle is refused."""
    order = np.argsort(plain.synapses.source, kind="stable")
    targets = plain.synapses.target[order]
    borders = np.searchsorted(plain.synapses.source[order], np.arange(len(plain.neurons) + 1))
    waiting = np.bincount(plain.synapses.target, minlength=len(plain.neurons))
    is_done = np.array(is_given)
    alone = np.flatnonzero(~is_done & (waiting == 0))
    level = np.union1d(_released(np.flatnonzero(is_given), targets, borders, waiting), alone)
    while len(level):
        yield level
        is_done[level] = True
        level = _released(level, targets, borders, waiting)
    if not np.all(is_done):
        refuse(plain, _in_a_cycle(plain, ~is_done), "waits for its own value: it is in a cycle")


def _released(rows: Integers, targets: Integers, borders: Integers, waiting: Integers) -> Integers:
    """The neurons that wait for nobody once these rows are known."""
    first, counts = borders[rows], borders[rows + 1] - borders[rows]
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    places = np.arange(total) + np.repeat(first - (ends - counts), counts)
    reached, times = np.unique(targets[places], return_counts=True)
    waiting[reached] -= times
    released: Integers = reached[waiting[reached] == 0]
    return released


def _in_a_cycle(plain: Plain, is_stuck: Bools) -> int:
    """A neuron of a cycle, found by going back from one that is stuck: whoever is stuck waits for one that is."""
    among = is_stuck[plain.synapses.source] & is_stuck[plain.synapses.target]
    before = np.full(len(plain.neurons), -1)
    before[plain.synapses.target[among]] = plain.synapses.source[among]
    row, met = int(np.argmax(is_stuck)), set[int]()
    while row not in met:
        met.add(row)
        row = int(before[row])
    return row
