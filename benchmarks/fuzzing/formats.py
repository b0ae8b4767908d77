"""The formats of neuron graphs that are fuzzed; a new one is a row of `FORMATS`."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.fuzzing import imitation
from benchmarks.fuzzing.native_graphs import NativeFiles
from torchport.targets.marble.exchange import as_json, legacy
from torchport.targets.marble.exchange.layout import with_bias_neurons
from torchport.targets.marble.exchange.plain import Neurons, Plain, Synapses


@dataclasses.dataclass(frozen=True)
class Format:
    """A format of files: whole ones to damage, how one is read and written, and bytes that are worth inserting."""

    name: str
    wholes: tuple[bytes, ...]
    load: Callable[[bytes], Any]
    dump: Callable[[Any], bytes]
    same: Callable[[Any, Any], bool]
    worth_inserting: tuple[bytes, ...]
    placed: Callable[[bytes], Any] = bytes
    """Puts the content of a file where `load` finds it."""
    is_tree: bool = False
    """Whether files are trees of JSON, whose nodes can be changed one by one."""


def graphs() -> list[Plain]:
    """A layer with odd numbers and names, a graph with states, and an empty one."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal(24)
    weights[[3, 4, 5]] = [np.nan, np.inf, -0.0]
    names = ["input"] * 4 + ["fc/é"] * 6
    neurons = Neurons.of(
        rng.standard_normal(10),
        activation=["" if name == "input" else "relu" for name in names],
        activation_flag=rng.random(10) > 0.5,
        group=names,
        formula=["x + 1"] + [""] * 9,
    )
    layer = Plain(neurons, Synapses.of(np.tile(np.arange(4), 6), np.repeat(np.arange(4, 10), 4), weights))
    states = {"h": rng.standard_normal((1, 2)).astype(np.float32), "c": np.arange(3), "on": np.array(True)}
    cycle = Synapses.of(
        [0, 1, 1], [1, 0, 1], [0.1, 1e-320, 2.0], [1.0, 0.5, 1.0], ["standard", "recurrent", "mirror"]
    )
    metadata = {"model": "tiny", "sizes": [1, 2.5, None, True], "nested": {"a": {"b": []}}}
    stateful = Plain(
        Neurons.of([1.0, -3e300], bias=[0.25, 0.0], tier=["ram", "disk"]), cycle, metadata, states
    )
    return [
        layer,
        stateful,
        Plain(Neurons.of(np.zeros(0)), Synapses.of(np.zeros(0, int), np.zeros(0, int), np.zeros(0))),
    ]


def as_marble_pickles() -> bytes:
    """A snapshot as MARBLE itself makes it, with dates, deques and arrays."""
    core = imitation.Core({"width": 1}, None, 4)
    for source, target in ((0, 2), (1, 2), (2, 3)):
        core.join(source, target, 0.5 * source)
    core.neurons[2].value = np.float64(0.25)
    neuronenblitz = imitation.Neuronenblitz(core)
    checksum = hashlib.sha256(imitation.core_to_json(core).encode()).hexdigest()
    metadata = {"converter": "convert_model", "version": 1, "checksum": checksum}
    brain = imitation.Brain(core, neuronenblitz, None)
    with imitation.installed():
        parts = {"core": core, "neuronenblitz": neuronenblitz, "brain": brain, "metadata": metadata}
        return pickle.dumps(parts, protocol=4)


def as_json_format() -> Format:
    def dump(plain: Plain) -> bytes:
        return b"".join(as_json.pieces(plain))

    tokens = (
        *(
            b"NaN",
            b"-Infinity",
            b"1e999",
            b"1e-400",
            b"-1",
            b"0",
            b"1",
            b"0.5",
            b"99999999999999999999",
            b"9" * 5000,
        ),
        *(
            b"null",
            b"true",
            b"false",
            b"[]",
            b"{}",
            b"[",
            b"]",
            b"{",
            b"}",
            b",",
            b":",
            b'"',
            b"\\ud800",
            b"\\u0000",
        ),
        *(
            b"[" * 5000,
            b'{"a":' * 5000,
            b"\xff\xfe",
            b"\xef\xbb\xbf",
            b"\x00",
            b'"id": 0, ',
            b'"weight": 1, ',
            b'""',
        ),
        *(
            b'"neurons"',
            b'"synapses"',
            b'"torchport"',
            b'"hidden_states"',
            b'"source"',
            b'"params"',
            b'"version": 2',
        ),
    )
    return Format("json", tuple(map(dump, graphs())), as_json.loads, dump, Plain.equals, tokens)


def legacy_format(verify: bool) -> Format:
    def dump(plain: Plain) -> bytes:
        return b"".join(legacy.pieces(plain))

    def load(content: bytes) -> Plain:
        return legacy.loads(content, verify)

    tokens = (
        *(
            b"cos\nsystem\n",
            b"cos\nsystem\n(X\x04\x00\x00\x00truetR",
            b"cbuiltins\neval\nX\x01\x00\x00\x001\x85R",
        ),
        *(
            b"\x8c\x02os\x8c\x06system\x93",
            b"\x8c\x04true\x85R",
            b"(S'true'\nios\nsystem\n",
            b"ccopyreg\n_reconstructor\n",
        ),
        *(
            b"cnumpy\nndarray\n",
            b"ccollections\ndeque\n",
            b"cmarble_core\nSynapse\n",
            b"cdatetime\ndatetime\n",
        ),
        *(
            b"\x82\x01",
            b"\x83\x01\x00",
            b"\x84\x01\x00\x00\x00",
            b"P1\n",
            b"Q",
            b"\x97",
            b"\x98",
            b"o",
            b"\x81",
            b"\x92",
        ),
        *(
            b"\x8b\xff\xff\xff\x7f",
            b"\x8e" + b"\xff" * 8,
            b"\x8d" + b"\xff" * 8,
            b"\x95" + b"\xff" * 8,
            b"B\xff\xff\xff\xff",
        ),
        *(
            b"r\xff\xff\xff\xff",
            b"j\x00\x00\x00\x00",
            b"h\x00",
            b"\x94",
            b"q\x05",
            b"2",
            b"0",
            b"1",
            b"(",
            b")",
            b"]",
            b"}",
        ),
        *(
            b"t",
            b"\x85",
            b"\x86",
            b"\x87",
            b"l",
            b"d",
            b"a",
            b"e",
            b"s",
            b"u",
            b"b",
            b"R",
            b"\x8f",
            b"\x90",
            b"\x91",
            b".",
        ),
        *(
            b"N",
            b"\x88",
            b"K\x00",
            b"K\x01",
            b"G" + bytes(8),
            b"G\x7f\xf8" + bytes(6),
            b"I1\n",
            b"F1\n",
            b"]" * 5000,
        ),
        *(
            b"X\x05\x00\x00\x00value",
            b"X\x01\x00\x00\x000",
            b"2\x86" * 200,
            b"(" * 3000,
            b"\x85" * 5000,
            b"\x80\x05",
            b"\x80\xff",
        ),
    )
    wholes = (*(dump(with_bias_neurons(graph)) for graph in graphs()), as_marble_pickles())
    name = "legacy" if verify else "legacy-unverified"
    return Format(name, wholes, load, dump, Plain.equals, tokens)


def native_format() -> Format:
    """Native files, damaged anywhere."""
    files = NativeFiles()
    tokens = (
        *(
            bytes(8),
            b"\xff" * 8,
            b"\x00\x00\x00\x01" + bytes(4),
            b'{"__metadata__":{',
            b'"dtype":"F64"',
            b'"F32"',
        ),
        *(
            b'"shape":[',
            b'"data_offsets":[0,',
            b"[99999999999999]",
            b"18446744073709551615",
            b'\\"',
            b"{",
            b"}",
            b",",
        ),
    )
    return Format("native", files.wholes(), files.load, files.dump, files.same, tokens, files.placed)


def native_structure_format() -> Format:
    """The structure in the header of native files, with a checksum that fits: the arrays are always the same."""
    files = NativeFiles()
    tokens = (
        b"null",
        b"true",
        b"-1",
        b"0",
        b"1e400",
        b"NaN",
        b"[]",
        b"{}",
        b'"',
        b"[" * 5000,
        b"9" * 5000,
        b"\\ud800",
    )
    wholes = tuple(files.structure(whole) for whole in files.cores)
    return Format(
        "native-structure",
        wholes,
        files.load,
        files.structure,
        files.same,
        tokens,
        files.with_structure,
        True,
    )


FORMATS: dict[str, Callable[[], Format]] = {
    "json": as_json_format,
    "legacy": lambda: legacy_format(verify=True),
    "legacy-unverified": lambda: legacy_format(verify=False),
    "native": native_format,
    "native-structure": native_structure_format,
}
