"""MARBLE's JSON: what is written comes back, MARBLE's loader can read it, and what is wrong is refused by its place."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchport.errors import DiskError, GraphFileError
from torchport.targets.marble.exchange import as_json
from torchport.targets.marble.exchange.limits import MOST_SYNAPSES, Limits, OutputsDifferWarning
from torchport.targets.marble.exchange.plain import Neurons, Plain, Synapses

pytestmark = pytest.mark.filterwarnings(
    "ignore::torchport.targets.marble.exchange.limits.OutputsDifferWarning"
)


def graph() -> Plain:
    neurons = Neurons.of(
        [0.1, -0.0, float("nan")],
        neuron_type=["standard", "bias", "lstm"],
        activation=["relu", "", "tanh"],
        activation_flag=np.array([True, False, True]),
        bias=[0.5, 0.0, float("-inf")],
        group=["fc", "fc", "é"],
        tier="ram",
        formula=["", "x + 1", ""],
    )
    weights = [0.1, float("nan"), float("inf"), 5e-324]
    synapses = Synapses.of(
        [0, 1, 2, 2], [1, 2, 2, 0], weights, [1.0, 0.5, 1.0, 1.0], ["standard", "a", "b", "a"]
    )
    states = {"h": np.float32([[0.1, float("nan")]]), "steps": np.int64([2**62]), "on": np.array([True])}
    return Plain(neurons, synapses, {"model": "tiny", "list": [1, None, 0.5]}, states)


def written(plain: Plain) -> bytes:
    return b"".join(as_json.pieces(plain))


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    as_json.write(tmp_path / "graph.json", graph())
    assert as_json.read(tmp_path / "graph.json").equals(graph())


def test_an_empty_graph_comes_back() -> None:
    empty = Plain(Neurons.of(np.zeros(0)), Synapses.of(np.zeros(0, int), np.zeros(0, int), np.zeros(0)))
    assert as_json.loads(written(empty)).equals(empty)


def test_float32_weights_come_back_bit_for_bit() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, np.uint32)
    weights = bits.view(np.float32)
    ids = np.zeros(len(weights), int)
    again = as_json.loads(written(Plain(Neurons.of([0.0]), Synapses.of(ids, ids, weights))))
    numbers = ~np.isnan(weights)
    assert np.array_equal(again.synapses.weight.astype(np.float32).view(np.uint32)[numbers], bits[numbers])
    assert np.isnan(again.synapses.weight[~numbers]).all()


def test_marbles_loader_finds_its_keys_and_no_hidden_states() -> None:
    """It takes these keys with Python's json, ids are the places, and a `hidden_states` beside them makes it raise."""
    document = json.loads(written(graph()))
    assert "hidden_states" not in document
    for index, neuron in enumerate(document["neurons"]):
        assert neuron["id"] == index and {"value", "tier", "formula"} <= neuron.keys()
    for synapse in document["synapses"]:
        assert synapse.keys() == {"source", "target", "weight", "potential", "synapse_type"}
    assert document["neurons"][0]["params"] == {"activation": "relu", "activation_flag": True, "bias": 0.5}


def test_a_file_that_marble_wrote_is_read_with_its_states_kept() -> None:
    states = [
        {"layer_index": 0, "direction": "forward", "tensor": [0.5], "dtype": "float32", "device": "cpu"}
    ]
    document = {
        "neurons": [{"id": 0, "value": 0, "tier": "vram", "formula": None}],
        "synapses": [{"source": 0, "target": 0, "weight": 1, "potential": 1.0, "synapse_type": "standard"}],
        "hidden_states": states,
    }
    plain = as_json.loads(json.dumps(document).encode())
    assert plain.metadata == {"hidden_states": states}
    assert plain.neurons.neuron_type.tolist() == ["standard"]
    assert as_json.loads(written(plain)).equals(plain)


def test_writing_warns_that_marble_computes_something_else(tmp_path: Path) -> None:
    with pytest.warns(OutputsDifferWarning, match="will not reproduce the outputs"):
        as_json.write(tmp_path / "graph.json", graph())


def test_a_large_graph_is_refused_with_its_size_unless_forced(tmp_path: Path) -> None:
    ids = np.broadcast_to(np.int64(0), 4_000_000)
    large = Plain(Neurons.of([0.0]), Synapses.of(ids, ids, 0.5))
    with pytest.raises(GraphFileError, match="TP0367: 4,000,000 synapses.* 420.0 MB.* 5.2 GB of memory"):
        as_json.write(tmp_path / "graph.json", large)
    assert not list(tmp_path.iterdir()) and MOST_SYNAPSES < 4_000_000


@pytest.mark.slow
def test_a_million_synapses_are_written_in_little_memory(tmp_path: Path) -> None:
    script = """
import resource, sys, warnings
import numpy as np
from torchport.targets.marble.exchange import as_json
from torchport.targets.marble.exchange.plain import Neurons, Plain, Synapses
ids = np.broadcast_to(np.int64(0), 1_000_000)
plain = Plain(Neurons.of([0.0]), Synapses.of(ids, ids, np.random.default_rng(0).standard_normal(1_000_000)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
as_json.write(sys.argv[1], plain, force=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    command = [sys.executable, "-W", "ignore", "-c", script, str(tmp_path / "graph.json")]
    kilobytes = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (tmp_path / "graph.json").stat().st_size > 90_000_000
    assert kilobytes < 60_000


def test_a_file_that_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(DiskError, match="TP0330"):
        as_json.write(tmp_path / "folder", graph())
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


NEURON = '{"id": 0, "value": 0.0}'
SYNAPSE = '{"source": 0, "target": 0, "weight": 1.0}'


def document(neurons: str = NEURON, synapses: str = SYNAPSE, more: str = "") -> str:
    return f'{{"neurons": [{neurons}], "synapses": [{synapses}]{more}}}'


def extras(**given: Any) -> str:
    return f', "torchport": {json.dumps({"version": 1, **given})}'


WRONG = [
    (document('{"id": 1, "value": 0.0}'), "TP0362", r"the id is 1.*neurons\[0\]"),
    (document(f"{NEURON}, {NEURON}"), "TP0362", r"the id is 0.*neurons\[1\]"),
    (document('{"id": 0.0, "value": 0.0}'), "TP0362", r"the id is 0.0.*neurons\[0\]"),
    (document('{"id": false, "value": 0.0}'), "TP0362", r"the id is False"),
    (
        document('{"id": 0, "value": [1, 2]}'),
        "TP0362",
        r"value is a list, and must be a number.*neurons\[0\]",
    ),
    (document('{"id": 0, "value": true}'), "TP0362", "value is a bool"),
    (document('{"id": 0, "value": 9007199254740993}'), "TP0362", "no float64 holds"),
    (document('{"id": 0}'), "TP0362", r"there is no 'value'.*neurons\[0\]"),
    (document('{"id": 0, "value": 0, "valeu": 1}'), "TP0362", "the key 'valeu' is not known"),
    (document('{"id": 0, "value": 0, "value": 1}'), "TP0362", r"'value' is there twice.*neurons\[0\]"),
    (
        document('{"id": 0, "value": 0, "params": {"activation": 0}}'),
        "TP0362",
        "params.activation is an integer",
    ),
    (
        document('{"id": 0, "value": 0, "params": {"activation_flag": 1}}'),
        "TP0362",
        "activation_flag is an int",
    ),
    (
        document('{"id": 0, "value": 0, "params": {"kernel": []}}'),
        "TP0362",
        "the key 'kernel' is not known",
    ),
    (document('{"id": 0, "value": 0, "tier": null}'), "TP0362", "tier is nothing, and must be a text"),
    (document('{"id": 0, "value": 0, "group": "\\ud800"}'), "TP0362", "surrogate"),
    (document(synapses='{"source": 0, "target": 7, "weight": 1}'), "TP0362", r"neuron 7.*synapses\[0\]"),
    (
        document(synapses='{"source": -1, "target": 0, "weight": 1}'),
        "TP0362",
        r"source is -1.*synapses\[0\]",
    ),
    (document(synapses='{"source": 0, "target": 0, "weight": "1"}'), "TP0362", "weight is a text"),
    (
        document(synapses='{"source": 0, "target": 0, "weight": 1e999}'),
        "TP0362",
        "1e999.*written Infinity",
    ),
    (document(synapses="[]"), "TP0362", r"it is a list, and must be an object.*synapses\[0\]"),
    (document(synapses=f"{SYNAPSE} {SYNAPSE}"), "TP0361", "']' is missing.*line 1, column 9"),
    (document(synapses=f"{SYNAPSE},"), "TP0361", r"not JSON: Expecting value.*synapses\[1\]"),
    (document('{"id": 0, "value": ' + "9" * 100_000 + "}"), "TP0362", r"of 100,000 digits.*neurons\[0\]"),
    (document("[" * 100_000), "TP0366", r"nested too deep.*neurons\[0\]"),
    (document(more=', "neurons": []'), "TP0362", "'neurons' is there twice"),
    (document(more=', "extra": 1'), "TP0362", "'extra' is not known"),
    (document() + "x", "TP0361", "something follows the graph"),
    ('{"neurons": []}', "TP0362", "there is no 'synapses'"),
    ("[]", "TP0361", "'{' is missing"),
    ("", "TP0361", "ends before its end"),
    (document()[:-40], "TP0361", "ends before its end"),
    (document(more=extras(version=2)), "TP0363", "of version 2, this reads 1"),
    (document(more=extras(version="1")), "TP0362", "not a version"),
    (document(more=extras(metadata=[])), "TP0362", "it is a list.*torchport.metadata"),
    (document(more=extras(metadata={"hidden_states": []}) + ', "hidden_states": [1]'), "TP0362", "two sets"),
    (document(more=extras(other=1)), "TP0362", "'other' is not known"),
    (document(more=extras(metadata=json.loads("[" * 40 + "]" * 40))), "TP0362", "not an object"),
    (
        document(more=extras(metadata={"a": json.loads("[" * 40 + "]" * 40)})),
        "TP0366",
        "nested more than 32",
    ),
    (
        document(more=extras(hidden_states={"h": {"dtype": "O", "shape": [], "values": [1]}})),
        "TP0362",
        "dtype",
    ),
    (
        document(more=extras(hidden_states={"h": {"dtype": "int8", "shape": [9**9], "values": []}})),
        "TP0362",
        "as many",
    ),
    (
        document(more=extras(hidden_states={"h": {"dtype": "int8", "shape": [1], "values": [300]}})),
        "TP0362",
        "no int8",
    ),
    (
        document(more=extras(hidden_states={"h": {"dtype": "float32", "shape": [1], "values": [0.1]}})),
        "TP0362",
        "0.1",
    ),
    (
        document(more=extras(hidden_states={"h": {"dtype": "float32", "shape": [1], "values": [1e39]}})),
        "TP0362",
        "1e",
    ),
]


@pytest.mark.parametrize(("text", "code", "message"), WRONG, ids=[message for _, _, message in WRONG])
def test_what_is_wrong_is_refused_with_its_place(text: str, code: str, message: str) -> None:
    with pytest.raises(GraphFileError, match=f"(?s){message}") as caught:
        as_json.loads(text.encode("utf-8", "surrogatepass"))
    assert caught.value.code == code


def test_text_that_is_not_utf8_is_refused_with_the_byte() -> None:
    with pytest.raises(GraphFileError, match="TP0361: this is not UTF-8.*byte 14"):
        as_json.loads(b'{"neurons": ["\xff"]}')


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphFileError, match=r"TP0360: .*No such file"):
        as_json.read(tmp_path / "none.json")
    with pytest.raises(GraphFileError, match="TP0360"):
        as_json.read(tmp_path)
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(10_000_000_000)
    with pytest.raises(GraphFileError, match="TP0366: .*has 10.0 GB, and 2.1 GB are allowed"):
        as_json.read(tmp_path / "large.json")
    with pytest.raises(GraphFileError, match="TP0366"):
        as_json.loads(b" " * 100, Limits(file_bytes=99))
