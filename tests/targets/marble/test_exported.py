"""A graph that is spelled out has every neuron and synapse of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from torchport.errors import GraphFileError, NeuronError
from torchport.marble import Core, GraphBuilder, convert_model, save
from torchport.targets.marble.exchange import as_json, legacy
from torchport.targets.marble.exchange.layout import without_bias_neurons
from torchport.targets.marble.files.exported import plain_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::torchport.targets.marble.exchange.limits.OutputsDifferWarning"
)


@pytest.fixture(scope="module")
def core() -> Core:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.25), nn.Linear(6, 3))
    return convert_model(model.eval(), torch.zeros(1, 4))


@pytest.fixture(scope="module")
def convolution() -> Core:
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.ConstantPad2d(1, 0.0), nn.Conv2d(2, 2, 3)]
    return convert_model(nn.Sequential(*layers).eval(), torch.zeros(1, 1, 6, 6))


def test_every_neuron_has_a_row_with_its_fields(core: Core) -> None:
    neurons = plain_of(core).neurons
    assert len(neurons) == len(core.neurons) == 4 + 6 + 6 + 3
    for row in neurons.ids:
        neuron = core.neurons[row]
        assert (neurons.neuron_type[row], neurons.formula[row]) == (neuron.neuron_type, neuron.formula)
        assert neurons.group[row] == (neuron.layer or neuron.group)
        assert neurons.activation_flag[row] == neuron.is_activation
        assert neurons.bias[row] == (neuron.bias or 0.0)
        assert neurons.tier[row] == neuron.tier


@pytest.mark.parametrize("which", ["core", "convolution"])
def test_every_synapse_has_a_row(which: str, request: pytest.FixtureRequest) -> None:
    core: Core = request.getfixturevalue(which)
    plain = plain_of(core)
    biases = int((plain.neurons.bias != 0).sum())
    assert len(plain.synapses) + biases == len(core.synapses)
    expected = [(one.source, one.target, one.weight) for id in core.neurons for one in core.synapses.of(id)]
    columns = (plain.synapses.source, plain.synapses.target, plain.synapses.weight)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


def test_synapses_from_padding_are_left_out_and_counted(convolution: Core) -> None:
    windows_of_a_padded_2_by_2_image = 2 * 2 * 2 * 2 * 9
    from_neurons = 2 * 2 * 4 * 4
    padding = plain_of(convolution).metadata["padding"]
    assert padding == {"synapses": windows_of_a_padded_2_by_2_image - from_neurons, "is_zero": True}


def test_an_activation_is_named_with_the_options_that_are_not_torchs_own(core: Core) -> None:
    plain = plain_of(core)
    assert set(plain.neurons.activation.names) == {"", "leaky_relu(negative_slope=0.25)"}
    described = plain.metadata["activations"]["leaky_relu(negative_slope=0.25)"]
    assert described["work"] == "aten.leaky_relu.default"
    assert described["options"] == {"negative_slope": 0.25}


def test_removed_neurons_leave_no_gaps_and_ids_are_remembered() -> None:
    builder = GraphBuilder()
    x = builder.input(2)
    hidden, end = builder.add_neuron_group(3, bias=[1.0, 2.0, 3.0]), builder.add_neuron_group(1)
    builder.connect(x, hidden, [[1, 2], [3, 4], [5, 6]])
    builder.connect(hidden, end, [[7, 8, 9]])
    core = builder.build(end)
    assert "ids" not in plain_of(core).metadata
    core.remove_neurons([hidden.takes[1]], cascade=True)
    plain = plain_of(core)
    assert plain.neurons.bias.tolist() == [0, 0, 1, 3, 0]
    assert plain.metadata["ids"] == [[0, 0, 3], [3, 4, 2]]
    assert plain.metadata["outputs"][0]["rows"] == [[4, 1]]
    assert plain.synapses.source.tolist() == [0, 1, 0, 1, 2, 3]
    assert plain.synapses.target.tolist() == [2, 2, 3, 3, 4, 4]
    assert plain.synapses.weight.tolist() == [1, 2, 5, 6, 7, 9]


def test_constants_have_their_value_and_memories_their_state() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("factor", torch.tensor([0.5, -2.0]))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ torch.outer(self.factor, self.factor)

    plain = plain_of(convert_model(Scaled(), torch.ones(1, 2)))
    constants = plain.neurons.value[plain.neurons.neuron_type.rows_of("constant")]
    assert set(constants.tolist()) == {0.5, -2.0}
    builder = GraphBuilder()
    x, total = builder.input(1), builder.add_neuron_group(1)
    builder.add_synapses(x, total, 1.5)
    last = builder.add_memory(total, name="last")
    core = builder.build(total)
    core.step(torch.tensor([3.0]))
    plain = plain_of(core)
    assert plain.hidden_states["last"].tolist() == [4.5]
    assert plain.neurons.value[last.gives[0]] == 4.5


def test_a_graph_that_is_too_large_is_refused_before_it_is_spelled_out(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchport.targets.marble.files import exported

    monkeypatch.delattr(exported, "synapses_into")
    with pytest.raises(NeuronError, match=r"19 neurons and 57 synapses.* MB as JSON; at most 56") as caught:
        plain_of(core, most=56)
    assert caught.value.code == "TP0907"


def test_the_extension_chooses_the_format(core: Core, tmp_path: Path) -> None:
    plain = plain_of(core)
    save(core, tmp_path / "graph.json")
    assert json.loads((tmp_path / "graph.json").read_bytes()).keys() == {"neurons", "synapses", "torchport"}
    assert as_json.read(tmp_path / "graph.json").equals(plain)
    save(core, tmp_path / "graph.marble", legacy=True)
    snapshot = legacy.read(tmp_path / "graph.marble")
    assert np.count_nonzero(snapshot.neurons.neuron_type.rows_of("bias")) == 2
    assert without_bias_neurons(snapshot).equals(plain)


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("graph.txt", {}),
        ("graph", {}),
        ("graph.json", {"legacy": True}),
        ("graph.json", {"journal": True}),
        ("graph.marble", {"legacy": True, "journal": True}),
    ],
)
def test_other_formats_are_refused_with_what_there_is(
    core: Core, tmp_path: Path, name: str, how: dict[str, bool]
) -> None:
    with pytest.raises(GraphFileError, match=r"\.marble .*\.json") as caught:
        save(core, tmp_path / name, **how)  # type: ignore[arg-type]
    assert caught.value.code == "TP0369"
    assert not list(tmp_path.iterdir())
