"""Writes MARBLE's legacy snapshot, a pickle of protocol 4, opcode by opcode: MARBLE need not be installed.

Neurons and synapses are made by their constructors, `Neuron(id, value)` and `Synapse(source, target, weight)`, so that
whatever a version of MARBLE has beside gets its default; then they are given what the graph knows. The core is
`Core(params, "0", 0)`, an empty one, that is given the neurons and synapses.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from torchport.targets.marble.exchange.extras import EXTRAS_KEY, extras_of
from torchport.targets.marble.exchange.plain import Plain
from torchport.targets.marble.exchange.texts import full_form, marble_form

CORE_PARAMS = {
    "xmin": -2.0,
    "xmax": 1.0,
    "ymin": -1.5,
    "ymax": 1.5,
    "width": 1,
    "height": 1,
    "max_iter": 1,
    "vram_limit_mb": 0.1,
    "ram_limit_mb": 0.1,
    "disk_limit_mb": 0.1,
}
"""What MARBLE's own loader of JSON gives its core."""
ABSENT = (
    *("metrics_visualizer", "metrics_dashboard", "dataloader", "hybrid_memory", "benchmark_manager"),
    *("autograd_layer", "tensor_sync_service", "pytorch_challenge_params"),
)
CORE, NEURON, SYNAPSE = (("marble_core", name) for name in ("Core", "Neuron", "Synapse"))
NEURONENBLITZ, BRAIN = ("marble_neuronenblitz.core", "Neuronenblitz"), ("marble_brain", "Brain")
CONVERTER, VERSION = "convert_model", 1
REFERENCES_AT_A_TIME = 1000
SYNAPSE_RECORD = np.dtype(
    [
        *(("get_class", "S1"), ("class", "<u4"), ("mark", "S1")),
        *(("is_source", "S1"), ("source", "<i4"), ("is_target", "S1"), ("target", "<i4")),
        *(("is_weight", "S1"), ("weight", ">f8"), ("call", "S4")),
        *(("get_key", "S1"), ("key", "<u4"), ("is_potential", "S1"), ("potential", ">f8")),
        *(("get_type_key", "S1"), ("type_key", "<u4"), ("get_type", "S1"), ("type", "<u4"), ("end", "S3")),
    ]
)
"""The opcodes of one synapse: the call of its constructor, then its state. `\\x94` remembers it for the core's list."""


def checksum(texts: Iterator[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode())
    return digest.hexdigest()


def opcodes_of(plain: Plain) -> Iterator[bytes]:
    """The bytes of the snapshot of a graph that has no biases."""
    tape = _Tape()
    yield b"\x80\x04"
    yield tape.constants(plain)
    yield b"}(" + text("core")
    yield from _core(tape, plain)
    yield text("neuronenblitz") + tape.get(NEURONENBLITZ) + tape.get("the core") + b"\x85R\x94"
    tape.remember("the neuronenblitz")
    yield text("brain") + tape.get(BRAIN) + tape.get("the core") + tape.get("the neuronenblitz") + b"N\x87R"
    metadata = {"converter": CONVERTER, "version": VERSION, "checksum": checksum(marble_form(plain))}
    extras = {**extras_of(plain), "checksum": checksum(full_form(plain))}
    yield text("metadata") + tree(metadata) + text("torrent_map") + b"}"
    yield text(EXTRAS_KEY) + tree(extras)
    yield b"".join(text(key) + b"N" for key in ABSENT) + b"u."


class _Tape:
    """What has been remembered by the pickle so far, and under which number."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.count = 0

    def remember(self, key: Any) -> None:
        self.numbers[key] = self.count
        self.count += 1

    def get(self, key: Any) -> bytes:
        return b"j" + struct.pack("<I", self.numbers[key])

    def constants(self, plain: Plain) -> bytes:
        """Remembers the names that the graph has many times."""
        written = []
        for pair in (NEURON, SYNAPSE, NEURONENBLITZ, BRAIN):
            written.append(text(pair[0]) + text(pair[1]) + b"\x93\x940")
            self.remember(pair)
        neurons = plain.neurons
        columns = (neurons.neuron_type, neurons.activation, neurons.group, neurons.tier, neurons.formula)
        names = [name for labels in (*columns, plain.synapses.synapse_type) for name in labels.names]
        keys = [
            "potential",
            "synapse_type",
            "neuron_type",
            "params",
            "activation",
            "activation_flag",
            "group",
        ]
        for name in dict.fromkeys([*keys, "tier", "formula", "synapses", *names]):
            written.append(text(name) + b"\x940")
            self.remember(name)
        return b"".join(written)


def _core(tape: _Tape, plain: Plain) -> Iterator[bytes]:
    yield text(CORE[0]) + text(CORE[1]) + b"\x93" + tree(CORE_PARAMS) + text("0") + b"K\x00\x87R\x94"
    tape.remember("the core")
    yield b"}(" + text("neurons")
    order = np.argsort(plain.synapses.source, kind="stable")
    yield from _neurons(tape, plain, _synapses(tape, plain, order))
    yield text("synapses")
    numbers = np.empty(len(order), np.int64)
    numbers[order] = tape.count + np.arange(len(order))
    tape.count += len(order)
    yield from _references(numbers)
    yield b"ub"


def _neurons(tape: _Tape, plain: Plain, synapses: npt.NDArray[Any]) -> Iterator[bytes]:
    neurons = plain.neurons
    borders = np.searchsorted(np.sort(plain.synapses.source), np.arange(len(neurons) + 1))
    yield b"]("
    for number, (first, last) in enumerate(pairwise(borders.tolist())):
        call = tape.get(NEURON) + integer(number) + real(float(neurons.value[number])) + b"\x86R"
        params = [tape.get("activation_flag"), b"\x88" if neurons.activation_flag[number] else b"\x89"]
        for key, labels in (("activation", neurons.activation), ("group", neurons.group)):
            if name := labels[number]:
                params += [tape.get(key), tape.get(name)]
        state = b"}(" + b"".join(params) + b"u"
        formula = neurons.formula[number]
        yield b"".join(
            [
                *(call, b"}(", tape.get("neuron_type"), tape.get(neurons.neuron_type[number])),
                *(tape.get("tier"), tape.get(neurons.tier[number]), tape.get("params"), state),
                *(tape.get("formula"), tape.get(formula) if formula else b"N"),
                *(tape.get("synapses"), b"](", synapses[first:last].tobytes(), b"eub"),
            ]
        )
    yield b"e"


def _synapses(tape: _Tape, plain: Plain, order: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The opcodes of every synapse, sorted by source."""
    synapses = plain.synapses
    records = np.empty(len(order), SYNAPSE_RECORD)
    for name in ("get_class", "get_key", "get_type_key", "get_type"):
        records[name] = b"j"
    records["is_source"] = records["is_target"] = b"J"
    records["is_weight"] = records["is_potential"] = b"G"
    records["mark"], records["call"], records["end"] = b"(", b"tR}(", b"ub\x94"
    records["class"], records["key"] = tape.numbers[SYNAPSE], tape.numbers["potential"]
    records["type_key"] = tape.numbers["synapse_type"]
    numbers = np.array([tape.numbers[name] for name in synapses.synapse_type.names] or [0])
    records["type"] = numbers[synapses.synapse_type.codes[order]]
    records["source"], records["target"] = synapses.source[order], synapses.target[order]
    records["weight"], records["potential"] = synapses.weight[order], synapses.potential[order]
    return records


def _references(numbers: npt.NDArray[np.int64]) -> Iterator[bytes]:
    """A list of what is remembered under these numbers."""
    records = np.empty(len(numbers), np.dtype([("get", "S1"), ("number", "<u4")]))
    records["get"], records["number"] = b"j", numbers
    yield b"]"
    for first in range(0, len(records), REFERENCES_AT_A_TIME):
        yield b"(" + records[first : first + REFERENCES_AT_A_TIME].tobytes() + b"e"


def tree(value: Any) -> bytes:
    """The opcodes of a tree of plain values."""
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int):
        return integer(value)
    if isinstance(value, float):
        return real(value)
    if isinstance(value, list):
        return b"](" + b"".join(map(tree, value)) + b"e"
    return b"}(" + b"".join(text(key) + tree(item) for key, item in value.items()) + b"u"


def text(value: str) -> bytes:
    content = value.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def integer(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x09" + value.to_bytes(9, "little", signed=True)


def real(value: float) -> bytes:
    return b"G" + struct.pack(">d", value)
