"""Finds the graph in what a legacy snapshot was read into, and compares its checksum.

What MARBLE keeps for its own use (dates, energies, representations, wanderers, memories) is passed over. What would
change the graph and has no place in a `Plain`, such as the kernel of a neuron of convolution, is refused.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from torchport.errors import GraphFileError
from torchport.targets.marble.exchange.extras import EXTRAS_KEY, with_extras
from torchport.targets.marble.exchange.labels import kind_of, shown
from torchport.targets.marble.exchange.legacy_writer import ABSENT, CORE, NEURON, SYNAPSE, VERSION, checksum
from torchport.targets.marble.exchange.plain import Plain
from torchport.targets.marble.exchange.rows import NeuronRows, RowError, SynapseRows
from torchport.targets.marble.exchange.stubs import Made, number_in
from torchport.targets.marble.exchange.texts import full_form
from torchport.targets.marble.exchange.trees import checked_tree

NEURON_ARGUMENTS = ("id", "value", "tier", "neuron_type")
SYNAPSE_ARGUMENTS = ("source", "target", "weight", "synapse_type")
CORE_ARGUMENTS = ("params", "formula", "formula_num_neurons")
PARTS = {"core", "neuronenblitz", "brain", "metadata", "torrent_map", EXTRAS_KEY, *ABSENT}
OF_THE_DEVICE = "weight_device"
"""A parameter that says where a weight was computed, and not what it is."""


def graph_of(snapshot: Any, verify: bool) -> Plain:
    """The graph of a snapshot; `verify` holds it to its checksum."""
    parts = _parts(snapshot)
    core = _required(parts.get("core"), CORE, "core").attributes(CORE_ARGUMENTS)
    digest = _Digest()
    neurons = _neurons(_list(core.get("neurons"), "core.neurons"), digest)
    synapses = _synapses(_list(core.get("synapses"), "core.synapses"), digest)
    _require_same_synapses(core["neurons"], core["synapses"])
    states = checked_tree(
        _object(core.get("params", {}), "core.params").get("hidden_states"), "hidden_states"
    )
    metadata = _object(parts.get("metadata") or {}, "metadata")
    _require_version(metadata.get("version", VERSION))
    if verify:
        _require_checksum(metadata.get("checksum"), digest.finished(states))
    extras, own_checksum = _extras(parts.get(EXTRAS_KEY))
    plain = with_extras(neurons.columns(), synapses.columns(), extras, states)
    if verify and extras is not None:
        _require_checksum(own_checksum, checksum(full_form(plain)))
    return plain


class _Digest:
    """The checksum of the text that MARBLE's own `core_to_json` would give, element by element."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256(b'{"neurons": [')

    def add(self, element: dict[str, Any], index: int) -> None:
        self.digest.update(((", " if index else "") + json.dumps(element)).encode())

    def end_of_neurons(self) -> None:
        self.digest.update(b'], "synapses": [')

    def finished(self, hidden_states: Any) -> str:
        self.digest.update(b"]")
        if hidden_states:
            self.digest.update(f', "hidden_states": {json.dumps(hidden_states)}'.encode())
        self.digest.update(b"}")
        return self.digest.hexdigest()


def _parts(snapshot: Any) -> dict[str, Any]:
    """The parts of a snapshot: a dict, or the state of a MARBLE object."""
    if type(snapshot) is Made and str(snapshot.name) == "marble_main.MARBLE":
        snapshot = snapshot.state
    parts = _object(snapshot, "the snapshot")
    if unknown := sorted(parts.keys() - PARTS):
        raise GraphFileError("TP0362", f"the part {shown(unknown[0])} is not known", where="the snapshot")
    return parts


def _neurons(neurons: list[Any], digest: _Digest) -> NeuronRows:
    rows = NeuronRows()
    for index, neuron in enumerate(neurons):
        where = f"core.neurons[{index}]"
        given = _required(neuron, NEURON, where).attributes(NEURON_ARGUMENTS)
        params = dict(_object(given.get("params", {}), f"{where}.params"))
        params.pop(OF_THE_DEVICE, None)
        if "bias" in params:
            raise GraphFileError(
                "TP0362", "MARBLE's neurons have no bias, and this one has a parameter of it", where
            )
        element = {
            "id": given.get("id"),
            "value": number_in(given.get("value", 0.0)),
            "tier": given.get("tier", "vram"),
            "formula": given.get("formula"),
        }
        beside = {"neuron_type": given.get("neuron_type", "standard"), "group": params.pop("group", "")}
        _add(rows, {**element, **beside, "params": params}, where)
        digest.add(element, index)
    digest.end_of_neurons()
    return rows


def _synapses(synapses: list[Any], digest: _Digest) -> SynapseRows:
    rows = SynapseRows()
    for index, synapse in enumerate(synapses):
        where = f"core.synapses[{index}]"
        given = _required(synapse, SYNAPSE, where).attributes(SYNAPSE_ARGUMENTS)
        element = {
            "source": given.get("source"),
            "target": given.get("target"),
            "weight": number_in(given.get("weight", 1.0)),
            "potential": number_in(given.get("potential", 1.0)),
            "synapse_type": given.get("synapse_type", "standard"),
        }
        _add(rows, element, where)
        digest.add(element, index)
    return rows


def _add(rows: NeuronRows | SynapseRows, element: dict[str, Any], where: str) -> None:
    try:
        rows.add(element)
    except RowError as wrong:
        raise GraphFileError("TP0362", str(wrong), where=where) from None


def _require_same_synapses(neurons: list[Any], synapses: list[Any]) -> None:
    """MARBLE has each synapse in the list of the core and in that of its source; both must say the same."""
    of_core = set(synapses)
    listed = 0
    for index, neuron in enumerate(neurons):
        where = f"core.neurons[{index}].synapses"
        for synapse in _list((neuron.state or {}).get("synapses", []), where):
            if (
                type(synapse) is not Made
                or synapse not in of_core
                or synapse.attributes(SYNAPSE_ARGUMENTS).get("source") != index
            ):
                raise GraphFileError(
                    "TP0362", "the neuron has a synapse that is not one of the core from it", where
                )
            listed += 1
    if listed != len(synapses):
        message = f"the neurons have {listed:,} synapses, and the core {len(synapses):,}"
        raise GraphFileError("TP0362", message, where="core.synapses")


def _extras(extras: Any) -> tuple[Any, Any]:
    """The extras without their checksum, and the checksum."""
    if type(extras) is not dict:
        return extras, None
    return {key: value for key, value in extras.items() if key != "checksum"}, extras.get("checksum")


def _require_version(version: Any) -> None:
    if type(version) is not int or version < 1:
        raise GraphFileError("TP0362", f"it is not a version: {kind_of(version)}", where="metadata.version")
    if version > VERSION:
        message = f"the snapshot is of version {version}, this reads {VERSION}"
        raise GraphFileError("TP0363", message, where="metadata.version")


def _require_checksum(written: Any, computed: str) -> None:
    if written is None:
        raise GraphFileError("TP0364", "the snapshot has no checksum", where="metadata.checksum")
    if written != computed:
        message = f"the checksum in the file is {shown(written):.20}…, that of the graph is {computed:.16}…"
        raise GraphFileError("TP0364", message, where="metadata.checksum")


def _required(value: Any, pair: tuple[str, str], where: str) -> Made:
    if type(value) is not Made or (value.name.module, value.name.name) != pair:
        raise GraphFileError("TP0362", f"it is not an object of {'.'.join(pair)}", where=where)
    return value


def _list(value: Any, where: str) -> list[Any]:
    if type(value) is not list:
        raise GraphFileError("TP0362", f"it is {kind_of(value)}, and must be a list", where=where)
    return value


def _object(value: Any, where: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise GraphFileError("TP0362", f"it is {kind_of(value)}, and must be a dict", where=where)
    return value
