"""Which weights of a port may be in memory only while a module runs that reads them, and when that is worth it."""

from __future__ import annotations

import math
import resource
from collections import defaultdict
from pathlib import Path

import psutil

from torchport.capture.graph import Graph, body_keys
from torchport.capture.plan import make_plan
from torchport.parity import dtypes

_LEAST_BYTES = 2**20
_PACKED_WHEN_MADE = "torch.nn.modules.rnn."
"""Layers that put their weights into another order when they are made."""


def reads(graph: Graph) -> dict[str, list[str]]:
    """The large weights that each module reads, by its path; without those that are read where no call is seen."""
    seen = {
        call.module
        for call in make_plan(graph).calls.values()
        if call.inputs and not call.type.startswith(_PACKED_WHEN_MADE)
    } - body_keys(graph.modules)
    found: dict[str, list[str]] = defaultdict(list)
    unseen: set[str] = set()
    for key, module in graph.modules.items():
        for name in module.params.values():
            head = graph.weights[name].tied_to or name
            if key not in seen:
                unseen.add(head)
            elif head not in found[module.path]:
                found[module.path].append(head)
    large = {name for name in graph.weights if _bytes(graph, name) >= _LEAST_BYTES} - unseen
    kept = {path: [name for name in names if name in large] for path, names in found.items()}
    return {path: names for path, names in kept.items() if names}


def is_worth_it(weights: Path) -> bool:
    """Whether the weights would take half of the memory that there is, or that this process may take."""
    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    set_limits = [limit for limit in limits if limit != resource.RLIM_INFINITY]
    room = min([psutil.virtual_memory().available, *set_limits])
    return weights.is_file() and weights.stat().st_size > room / 2


def _bytes(graph: Graph, name: str) -> int:
    meta = graph.weights[name].meta
    sizes = [size for size in meta.shape if isinstance(size, int)]
    return math.prod(sizes) * dtypes.DTYPES[meta.dtype].itemsize
