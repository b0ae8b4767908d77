"""The order in which the steps of a changed graph are done: each after those whose values it reads."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from torchport.errors import NeuronError
from torchport.targets.marble.core.version import Version
from torchport.targets.marble.evaluate import reads
from torchport.targets.marble.groups import Assembly, Group, Step

T = TypeVar("T")


def in_order(version: Version) -> Version:
    """The same graph in an order in which it can be computed; refused if there is none."""
    steps = tuple(
        _inside_in_order(step) if isinstance(step, Assembly) else step for step in version.graph.steps
    )
    sorted_steps = _sorted(
        steps,
        name=lambda step: step.name,
        needs=lambda step: {port.group for port in reads(step)},
    )
    return version.with_steps(tuple(sorted_steps))


def _inside_in_order(step: Assembly) -> Step:
    def needs(group: Group) -> set[str]:
        return {port.group for port in group.inputs}

    return replace(step, groups=tuple(_sorted(step.groups, name=lambda group: group.name, needs=needs)))


def _sorted(items: Sequence[T], *, name: Callable[[T], str], needs: Callable[[T], set[str]]) -> list[T]:
    """Each after those that it needs, and else in the order in which they are."""
    index_of = {name(item): index for index, item in enumerate(items)}
    waiting = [{index_of[need] for need in needs(item) if need in index_of} for item in items]
    followers: list[list[int]] = [[] for _ in items]
    for index, before in enumerate(waiting):
        for need in before:
            followers[need].append(index)
    ready = [index for index, before in enumerate(waiting) if not before]
    found: list[T] = []
    while ready:
        done = heapq.heappop(ready)
        found.append(items[done])
        for follower in followers[done]:
            waiting[follower].discard(done)
            if not waiting[follower]:
                heapq.heappush(ready, follower)
    if len(found) < len(items):
        stuck = [name(items[index]) for index, before in enumerate(waiting) if before]
        raise NeuronError("TP0903", f"the synapses would form a cycle through {', '.join(sorted(stuck)[:5])}")
    return found
