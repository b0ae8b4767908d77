"""The columns of a graph, filled row by row from what a file says of each neuron and synapse."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from torchport.targets.marble.exchange.labels import LabelCollector, kind_of, shown
from torchport.targets.marble.exchange.plain import Neurons, Synapses

NEURON_KEYS = {"id", "value", "tier", "formula", "neuron_type", "params", "group"}
PARAMS_KEYS = {"activation", "activation_flag", "bias"}
SYNAPSE_KEYS = {"source", "target", "weight", "potential", "synapse_type"}


class RowError(Exception):
    """Something is wrong within an element; only the caller knows the place of it."""


class NeuronRows:
    """The columns of the neurons, filled row by row."""

    def __init__(self) -> None:
        self.value, self.bias, self.flag = array("d"), array("d"), array("b")
        self.names = {
            key: LabelCollector() for key in ("neuron_type", "activation", "group", "tier", "formula")
        }

    def add(self, neuron: Any) -> None:
        require_object(neuron, NEURON_KEYS, ("id", "value"))
        if type(neuron["id"]) is not int or neuron["id"] != len(self.value):
            raise RowError(f"the id is {shown(neuron['id'])}, and must be the place in the list")
        params = neuron.get("params", {})
        require_object(params, PARAMS_KEYS, ())
        value, bias = number(neuron["value"], "value"), number(params.get("bias", 0.0), "params.bias")
        flag = params.get("activation_flag", False)
        if type(flag) is not bool:
            raise RowError(f"params.activation_flag is {kind_of(flag)}, and must be a bool")
        names = {
            "neuron_type": name(neuron.get("neuron_type", "standard"), "neuron_type"),
            "activation": optional_name(params.get("activation"), "params.activation"),
            "group": name(neuron.get("group", ""), "group"),
            "tier": name(neuron.get("tier", "vram"), "tier"),
            "formula": optional_name(neuron.get("formula"), "formula"),
        }
        self.value.append(value)
        self.bias.append(bias)
        self.flag.append(flag)
        for key, text in names.items():
            self.names[key].add(text)

    def columns(self) -> Neurons:
        names = {key: collected.labels() for key, collected in self.names.items()}
        flags = np.array(self.flag, np.bool_)
        return Neurons(value=np.array(self.value), bias=np.array(self.bias), activation_flag=flags, **names)


class SynapseRows:
    """The columns of the synapses, filled row by row."""

    def __init__(self) -> None:
        self.source, self.target = array("q"), array("q")
        self.weight, self.potential = array("d"), array("d")
        self.synapse_type = LabelCollector()

    def add(self, synapse: Any) -> None:
        require_object(synapse, SYNAPSE_KEYS, ("source", "target", "weight"))
        source, target = reference(synapse["source"], "source"), reference(synapse["target"], "target")
        weight, potential = (
            number(synapse["weight"], "weight"),
            number(synapse.get("potential", 1.0), "potential"),
        )
        synapse_type = name(synapse.get("synapse_type", "standard"), "synapse_type")
        self.source.append(source)
        self.target.append(target)
        self.weight.append(weight)
        self.potential.append(potential)
        self.synapse_type.add(synapse_type)

    def columns(self) -> Synapses:
        return Synapses(
            np.array(self.source, np.int64),
            np.array(self.target, np.int64),
            np.array(self.weight),
            np.array(self.potential),
            self.synapse_type.labels(),
        )


def require_object(element: Any, known: set[str], needed: tuple[str, ...]) -> None:
    if type(element) is not dict:
        raise RowError(f"it is {kind_of(element)}, and must be an object")
    for key in needed:
        if key not in element:
            raise RowError(f"there is no {key!r}")
    if not element.keys() <= known:
        raise RowError(f"the key {min(element.keys() - known)!r:.60} is not known")


def number(value: Any, key: str) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise RowError(f"{key} is {kind_of(value)}, and must be a number")
    if abs(value) > 2**53:
        raise RowError(f"{key} is an integer that no float64 holds: {value}")
    return float(value)


def reference(value: Any, key: str) -> int:
    if type(value) is not int or value < 0:
        raise RowError(f"{key} is {shown(value)}, and must be the id of a neuron")
    return value


def name(value: Any, key: str) -> str:
    if type(value) is not str:
        raise RowError(f"{key} is {kind_of(value)}, and must be a text")
    return value


def optional_name(value: Any, key: str) -> str:
    """A name, or nothing, which is an empty name."""
    return "" if value is None else name(value, key)
