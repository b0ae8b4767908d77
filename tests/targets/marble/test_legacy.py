"""Legacy snapshots: MARBLE's own unpickler could load them, they come back, and a changed one is refused."""

from __future__ import annotations

import hashlib
import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.fuzzing import imitation
from tests.targets.marble.test_plain import dense
from torchport.errors import GraphFileError
from torchport.targets.marble.exchange import legacy
from torchport.targets.marble.exchange.layout import with_bias_neurons, without_bias_neurons
from torchport.targets.marble.exchange.limits import Limits, OutputsDifferWarning
from torchport.targets.marble.exchange.plain import Neurons, Plain, Synapses

pytestmark = pytest.mark.filterwarnings(
    "ignore::torchport.targets.marble.exchange.limits.OutputsDifferWarning"
)


def written(plain: Plain) -> bytes:
    return b"".join(legacy.pieces(plain))


def graph() -> Plain:
    neurons = Neurons.of(
        [0.1, 1.0, float("nan")],
        neuron_type=["standard", "bias", "lstm"],
        activation=["relu", "", "tanh"],
        activation_flag=np.array([True, False, True]),
        group=["fc", "fc", "é"],
        tier=["ram", "vram", "vram"],
        formula=["", "x + 1", ""],
    )
    synapses = Synapses.of(
        [2, 1, 0, 2], [1, 2, 2, 0], [0.1, float("nan"), -0.0, 5e-324], [1, 0.5, 1, 1], list("abca")
    )
    return Plain(
        neurons, synapses, {"model": "tiny", "n": 2**62}, {"h": np.float32([[0.1]]), "on": np.array(True)}
    )


def as_marble_loads(content: bytes) -> dict[str, Any]:
    """What Python's own unpickler makes of a snapshot if MARBLE is there."""
    with imitation.installed():
        parts: dict[str, Any] = pickle.loads(content)
    return parts


def as_marble_pickles(core: imitation.Core, **metadata: Any) -> bytes:
    neuronenblitz = imitation.Neuronenblitz(core)
    checksum = hashlib.sha256(imitation.core_to_json(core).encode()).hexdigest()
    kept = {"converter": "convert_model", "version": 1, "checksum": checksum, **metadata}
    parts = {
        "core": core,
        "neuronenblitz": neuronenblitz,
        "brain": imitation.Brain(core, neuronenblitz, None),
    }
    with imitation.installed():
        return pickle.dumps({**parts, "metadata": kept}, protocol=4)


def small_core() -> imitation.Core:
    core = imitation.Core({"width": 1}, None, 3)
    core.join(0, 2, 0.5)
    core.join(1, 2, 0.25)
    return core


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    legacy.write(tmp_path / "graph.marble", graph())
    assert legacy.read(tmp_path / "graph.marble").equals(graph())


def test_the_pickle_is_well_formed_and_of_protocol_4() -> None:
    told = io.StringIO()
    pickletools.dis(written(graph()), out=told)
    assert "highest protocol among opcodes = 4" in told.getvalue()


def test_marble_loads_the_snapshot_into_its_own_classes() -> None:
    parts = as_marble_loads(written(graph()))
    core = parts["core"]
    assert type(core) is imitation.Core and core.rep_size == 4
    assert parts["neuronenblitz"].core is parts["brain"].core is core
    assert parts["brain"].neuronenblitz is parts["neuronenblitz"]
    assert [neuron.id for neuron in core.neurons] == [0, 1, 2]
    assert [neuron.neuron_type for neuron in core.neurons] == ["standard", "bias", "lstm"]
    assert core.neurons[0].params == {"activation": "relu", "activation_flag": True, "group": "fc"}
    assert [(synapse.source, synapse.target) for synapse in core.synapses] == [(2, 1), (1, 2), (0, 2), (2, 0)]
    assert core.neurons[2].synapses == [core.synapses[0], core.synapses[3]]
    assert [synapse.potential for synapse in core.synapses] == [1.0, 0.5, 1.0, 1.0]
    assert core.neurons[0].representation.tolist() == [0.0] * 4


def test_the_parts_and_the_checksum_are_those_of_marble() -> None:
    parts = as_marble_loads(written(graph()))
    expected = hashlib.sha256(imitation.core_to_json(parts["core"]).encode()).hexdigest()
    assert parts["metadata"] == {"converter": "convert_model", "version": 1, "checksum": expected}
    assert parts["torrent_map"] == {}
    absent = ("metrics_visualizer", "metrics_dashboard", "dataloader", "hybrid_memory", "benchmark_manager")
    assert all(parts[key] is None for key in (*absent, "autograd_layer", "tensor_sync_service"))


def test_marbles_way_back_to_torch_finds_the_linear_layers() -> None:
    """As its back-conversion does: neurons without inputs, bias neurons by their value of 1, then layer by layer."""
    layers = nn.Linear(3, 4), nn.Linear(4, 2)
    core = as_marble_loads(written(with_bias_neurons(dense(*layers))))["core"]
    reached = {synapse.target for synapse in core.synapses}
    biases = {neuron.id for neuron in core.neurons if neuron.value == 1.0 and neuron.id not in reached}
    current = [neuron.id for neuron in core.neurons if neuron.value != 1.0 and neuron.id not in reached]
    for layer in layers:
        incoming = [synapse for synapse in core.synapses if synapse.source in current]
        outputs = sorted({synapse.target for synapse in incoming})
        weight = torch.tensor([synapse.weight for synapse in incoming]).reshape(len(outputs), len(current))
        from_bias = [s for s in core.synapses if s.source in biases and s.target in outputs]
        assert torch.equal(weight, layer.weight.detach())
        assert torch.equal(torch.tensor([synapse.weight for synapse in from_bias]), layer.bias.detach())
        current = outputs
    assert len(current) == 2


def test_a_model_comes_back_with_its_biases() -> None:
    plain = dense(nn.Linear(5, 4), nn.Linear(4, 3))
    assert without_bias_neurons(legacy.loads(written(with_bias_neurons(plain)))).equals(plain)


def test_a_graph_with_biases_is_refused_for_marble_would_lose_them(tmp_path: Path) -> None:
    with pytest.raises(GraphFileError, match=r"TP0367: 2 neurons have a bias.*neurons\[3\]"):
        legacy.write(tmp_path / "graph.marble", dense(nn.Linear(3, 2)))
    assert not list(tmp_path.iterdir())


def test_a_large_graph_is_refused_with_its_size_unless_forced(tmp_path: Path) -> None:
    ids = np.broadcast_to(np.int64(0), 4_194_304)
    large = Plain(Neurons.of([0.0]), Synapses.of(ids, ids, 0.5))
    with pytest.raises(GraphFileError, match=r"TP0367: 4,194,304 synapses.* 2\d\d\.\d MB.* 5.5 GB of memory"):
        legacy.write(tmp_path / "graph.marble", large)
    assert not list(tmp_path.iterdir())


def test_a_graph_of_more_rows_than_a_snapshot_can_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy, "MOST_ROWS", 3)
    with pytest.raises(GraphFileError, match="TP0367: 4 neurons or synapses"):
        legacy.pieces(graph())


def test_writing_warns_that_marble_computes_something_else(tmp_path: Path) -> None:
    with pytest.warns(OutputsDifferWarning, match="no feed-forward evaluation"):
        legacy.write(tmp_path / "graph.marble", graph())


@pytest.mark.parametrize("number", [np.float64(0.25), np.float32(0.25), np.array(0.25), 0.25], ids=repr)
def test_a_snapshot_that_marble_pickled_is_read(number: Any) -> None:
    """It has dates, deques, arrays and functions in it, and may have numbers of numpy."""
    core = small_core()
    content = as_marble_pickles(core)
    core.synapses[1].weight = number
    assert legacy.loads(as_marble_pickles_without_checksum(core), verify=False).equals(legacy.loads(content))
    plain = legacy.loads(content)
    assert plain.synapses.weight.tolist() == [0.5, 0.25]
    assert legacy.loads(written(plain)).equals(plain)


def as_marble_pickles_without_checksum(core: imitation.Core) -> bytes:
    with imitation.installed():
        return pickle.dumps({"core": core}, protocol=4)


def test_integers_for_numbers_do_not_disturb_the_checksum() -> None:
    core = small_core()
    core.neurons[0].value, core.synapses[0].weight = 3, 2
    assert legacy.loads(as_marble_pickles(core)).neurons.value.tolist() == [3.0, 0.0, 0.0]


def test_a_changed_weight_is_found_by_the_checksum() -> None:
    content = written(graph())
    changed = content.replace(np.float64(0.1).byteswap().tobytes(), np.float64(0.2).byteswap().tobytes())
    assert changed != content
    with pytest.raises(GraphFileError, match="TP0364: the checksum in the file"):
        legacy.loads(changed)
    assert 0.2 in legacy.loads(changed, verify=False).synapses.weight


def test_a_changed_name_that_marbles_checksum_does_not_cover_is_found() -> None:
    content = written(graph())
    assert content.count(b"relu") == 1
    with pytest.raises(GraphFileError, match="TP0364"):
        legacy.loads(content.replace(b"relu", b"selu"))
    with pytest.raises(GraphFileError, match="TP0362: the part 'torchpart' is not known"):
        legacy.loads(content.replace(b"torchport", b"torchpart"))


def test_a_snapshot_without_a_checksum_is_read_only_if_asked() -> None:
    content = as_marble_pickles_without_checksum(small_core())
    with pytest.raises(GraphFileError, match="TP0364: the snapshot has no checksum"):
        legacy.loads(content)
    assert len(legacy.loads(content, verify=False).neurons) == 3


def test_a_newer_version_is_refused() -> None:
    with pytest.raises(GraphFileError, match="TP0363: the snapshot is of version 2, this reads 1"):
        legacy.loads(as_marble_pickles(small_core(), version=2))
    with pytest.raises(GraphFileError, match="TP0363: the pickle is of protocol 6"):
        legacy.loads(b"\x80\x06}.")


def test_what_a_plain_graph_cannot_hold_is_refused_and_not_lost() -> None:
    core = small_core()
    core.neurons[1].params["kernel"] = np.zeros(3)
    with pytest.raises(GraphFileError, match=r"TP0362: the key 'kernel' is not known.*core.neurons\[1\]"):
        legacy.loads(as_marble_pickles(core))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda core: core.neurons.reverse(), r"the id is 2.*core.neurons\[0\]"),
        (lambda core: core.neurons.append(core.neurons[0]), r"the id is 0.*core.neurons\[3\]"),
        (
            lambda core: core.neurons.append("neuron"),
            r"not an object of marble_core.Neuron.*core.neurons\[3\]",
        ),
        (lambda core: core.synapses.pop(), "a synapse that is not one of the core"),
        (lambda core: core.neurons[0].synapses.clear(), "the neurons have 1 synapses, and the core 2"),
        (lambda core: setattr(core.synapses[0], "target", 3), "neuron 3, and there are 3"),
        (lambda core: setattr(core.synapses[0], "weight", "1"), "weight is a text"),
        (
            lambda core: setattr(core.neurons[0], "value", np.zeros(2)),
            "value is of the class Made, and must be a number",
        ),
        (lambda core: setattr(core, "neurons", (1, 2)), "must be a list.*core.neurons"),
        (lambda core: core.__dict__.pop("synapses"), "it is nothing, and must be a list.*core.synapses"),
    ],
)
def test_a_graph_that_cannot_be_right_is_refused_with_its_place(spoil: Any, message: str) -> None:
    core = small_core()
    spoil(core)
    with pytest.raises(GraphFileError, match=f"TP0362: .*{message}"):
        legacy.loads(as_marble_pickles_without_checksum(core), verify=False)


@pytest.mark.parametrize("part", range(0, 100, 7))
def test_a_snapshot_that_is_cut_off_is_refused(part: int) -> None:
    content = written(graph())
    with pytest.raises(GraphFileError, match="TP0361: .*byte"):
        legacy.loads(content[: len(content) * part // 100])


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphFileError, match="TP0360: .*No such file"):
        legacy.read(tmp_path / "none.marble")
    with pytest.raises(GraphFileError, match="TP0366"):
        legacy.loads(written(graph()), limits=Limits(file_bytes=100))
