"""An imitation of MARBLE's classes, under the names of its modules.

With them Python's own pickle can write a snapshot as MARBLE would, and load one as MARBLE would. Only what matters
to a pickle is here: constructors and attributes.
"""

from __future__ import annotations

import contextlib
import json
import sys
import types
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np

NEURON_TYPES = ("standard", "linear", "relu", "sigmoid", "tanh")


class Neuron:
    def __init__(
        self, nid: int, value: float = 0.0, tier: str = "vram", neuron_type: str = "standard"
    ) -> None:
        if tier not in ("vram", "ram", "disk") or neuron_type not in NEURON_TYPES:
            raise ValueError(f"unknown tier {tier} or type {neuron_type}")
        self.id, self.value, self.tier, self.neuron_type = nid, value, tier, neuron_type
        self.synapses: list[Synapse] = []
        self.formula = None
        self.created_at = datetime(2025, 1, 1)
        self.cluster_id, self.attention_score, self.energy = None, 0.0, 1.0
        self.representation = np.zeros(4)
        self.params: dict[str, Any] = {}
        self.value_history: list[float] = []


class Synapse:
    def __init__(self, source: int, target: int, weight: float = 1.0, synapse_type: str = "standard") -> None:
        self.source, self.target, self.weight = source, target, weight
        self.potential, self.synapse_type = 1.0, synapse_type
        self.created_at = datetime(2025, 1, 1)
        self.fatigue, self.frozen, self.phase, self.visit_count = 0.0, False, 0.0, 0
        self.echo_buffer: deque[float] = deque(maxlen=5)


class Core:
    def __init__(
        self, params: dict[str, Any], formula: str | None = None, formula_num_neurons: int = 100
    ) -> None:
        self.params = params
        self.rep_size = 4
        self.neurons = [Neuron(nid) for nid in range(formula_num_neurons)]
        self.synapses: list[Synapse] = []

    def join(self, source: int, target: int, weight: float) -> None:
        synapse = Synapse(source, target, weight)
        self.neurons[source].synapses.append(synapse)
        self.synapses.append(synapse)


def default_combine_fn(value: float, weight: float) -> float:
    return max(value * weight, 0)


class Neuronenblitz:
    def __init__(self, core: Core) -> None:
        self.core = core
        self.combine_fn = default_combine_fn
        self.wander_history: deque[float] = deque([0.5], maxlen=100)


class Brain:
    def __init__(self, core: Core, neuronenblitz: Neuronenblitz, dataloader: Any) -> None:
        self.core, self.neuronenblitz, self.dataloader = core, neuronenblitz, dataloader


MODULES = {
    "marble_core": (Core, Neuron, Synapse),
    "marble_neuronenblitz": (),
    "marble_neuronenblitz.core": (Neuronenblitz, default_combine_fn),
    "marble_brain": (Brain,),
}


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """The imitation is found under the names of MARBLE's modules within this block."""
    before = {name: sys.modules.get(name) for name in MODULES}
    for name, members in MODULES.items():
        module = types.ModuleType(name)
        for member in members:
            member.__module__ = name
            setattr(module, member.__name__, member)
        sys.modules[name] = module
    try:
        yield
    finally:
        for name, module_before in before.items():
            if module_before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module_before


def core_to_json(core: Core) -> str:
    """The text that MARBLE takes the checksum of."""
    neurons = [{"id": n.id, "value": n.value, "tier": n.tier, "formula": n.formula} for n in core.neurons]
    keys = ("source", "target", "weight", "potential", "synapse_type")
    synapses = [{key: getattr(synapse, key) for key in keys} for synapse in core.synapses]
    return json.dumps({"neurons": neurons, "synapses": synapses})
