"""A graph can be changed and stays right: ids stay, dangling references are refused, what fails changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from torchport.errors import NeuronError
from torchport.marble import Core, GraphBuilder, convert_model
from torchport.targets.marble.synapses import synapses_of


def mlp() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).eval()


@pytest.fixture
def core() -> Core:
    return convert_model(mlp(), X)


X = torch.randn(1, 4, generator=torch.Generator().manual_seed(1))


def group(core: Core, index: int) -> range:
    """The neurons of the first dense layer (0), its activations (1), or the second dense layer (2)."""
    return core.groups()[1 + index].ids


def weights(core: Core) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    a, b, c, d = core.state_dict().values()
    return a, b, c, d


def test_a_graph_of_a_model_has_its_neurons_and_synapses(core: Core) -> None:
    assert (len(core.neurons), len(core.synapses)) == (4 + 6 + 6 + 3, 4 * 6 + 6 + 6 + 6 * 3 + 3)
    w1, b1, *_ = weights(core)
    neuron = core.neurons[group(core, 0)[2]]
    assert (neuron.layer, neuron.position, neuron.neuron_type) == ("0", (0, 2), "weighted sum")
    assert neuron.bias == b1[2].item()
    assert [one.weight for one in core.synapses.of(neuron.id)] == w1[2].tolist()
    activation = core.neurons[group(core, 1)[2]]
    assert (activation.activation, activation.is_activation) == ("relu", True)
    assert [one.source for one in core.synapses.of(activation.id)] == [neuron.id]
    assert activation.params["activation_flag"] is True


def test_synapses_out_of_a_neuron_are_those_into_others(core: Core) -> None:
    *_, w2, _ = weights(core)
    leaving = core.synapses.out_of(group(core, 1)[4])
    assert [one.target for one in leaving] == list(group(core, 2))
    assert [one.weight for one in leaving] == w2[:, 4].tolist()
    for synapse in leaving:
        assert core.synapses[synapse.id] == synapse


def test_the_state_dict_comes_back_bit_for_bit(core: Core) -> None:
    model = mlp()
    assert list(core.state_dict()) == list(model.state_dict())
    for name, value in model.state_dict().items():
        assert torch.equal(core.state_dict()[name], value)


def test_a_synapse_of_weight_0_changes_nothing(core: Core) -> None:
    before = core.run(X)[0]
    core.add_synapses(list(group(core, 0))[:3], list(group(core, 2)), 0.0)
    assert torch.equal(core.run(X)[0], before)
    assert len(core.synapses) == 57 + 3


def test_an_added_synapse_carries_its_weight(core: Core) -> None:
    before = core.run(X)[0]
    core.add_synapses(1, group(core, 2)[0], 2.5)
    expected = before.clone()
    expected[0, 0] += 2.5 * X[0, 1]
    torch.testing.assert_close(core.run(X)[0], expected)
    assert core.synapses.of(group(core, 2)[0])[-1].id == (group(core, 2)[0], 6)


def test_a_removed_synapse_is_gone_and_the_others_keep_their_numbers(core: Core) -> None:
    w1, b1, w2, b2 = weights(core)
    target = group(core, 2)[1]
    core.remove_synapses([(target, 2)])
    changed = w2.clone()
    changed[1, 2] = 0
    expected = nn.functional.linear(nn.functional.linear(X, w1, b1).relu(), changed, b2)
    torch.testing.assert_close(core.run(X)[0], expected)
    assert [one.number for one in core.synapses.of(target)] == [0, 1, 3, 4, 5]
    assert len(core.synapses) == 56
    core.add_synapses(0, target, 1.0)
    assert core.synapses.of(target)[-1].number == 6, "a number is given once"
    with pytest.raises(NeuronError, match="has no synapse 2"):
        core.remove_synapses([(target, 2)])


def test_the_weight_of_one_synapse(core: Core) -> None:
    target = group(core, 2)[1]
    core.set_weights([(target, 2), (target, 3)], [0.5, -0.5])
    assert [core.synapses[target, number].weight for number in (2, 3)] == [0.5, -0.5]


def test_a_neuron_that_others_need_is_not_removed(core: Core) -> None:
    before = core.version
    for neuron in (group(core, 0)[1], group(core, 1)[1], group(core, 2)[1], 0):
        with pytest.raises(NeuronError) as caught:
            core.remove_neurons([neuron])
        assert caught.value.code == "TP0902"
    assert core.version is before


def test_removing_with_what_depends_on_it(core: Core) -> None:
    w1, b1, w2, b2 = weights(core)
    core.remove_neurons([group(core, 0)[1]], cascade=True)
    kept = [0, 2, 3, 4, 5]
    expected = nn.functional.linear(nn.functional.linear(X, w1[kept], b1[kept]).relu(), w2[:, kept], b2)
    torch.testing.assert_close(core.run(X)[0], expected)
    assert (len(core.neurons), len(core.synapses)) == (17, 57 - 4 - 1 - 1 - 3)
    assert group(core, 0)[1] not in core.neurons and group(core, 1)[1] not in core.neurons
    assert core.neurons[group(core, 2)[1]].id == group(core, 2)[1], "ids stay"
    with pytest.raises(NeuronError, match="was removed"):
        core.neurons[group(core, 0)[1]]
    with pytest.raises(NeuronError):
        core.add_synapses(group(core, 0)[1], group(core, 2)[1], 1.0)


def test_a_neuron_that_is_not_there_is_reported_in_the_same_words_everywhere(core: Core) -> None:
    core.remove_neurons(list(group(core, 0)), cascade=True)
    version = core.version
    for unknown in (-1, 19, 10**9):
        with pytest.raises(NeuronError, match=rf"there is no neuron {unknown}: ids are below 19"):
            core.neurons[unknown]
        with pytest.raises(NeuronError, match=rf"there is no neuron {unknown}: ids are below 19"):
            synapses_of(version.graph, version.arrays, unknown)
    with pytest.raises(NeuronError, match="was removed"):
        core.neurons[group(core, 0)[1]]


def test_groups_come_and_go(core: Core) -> None:
    before = core.run(X)[0]
    more = core.add_neuron_group(2, name="more", activation="tanh")
    core.connect([0, 1], more, [[1.0, 2.0], [3.0, 4.0]])
    core.connect(more, group(core, 2), 0.0)
    assert torch.equal(core.run(X)[0], before)
    with pytest.raises(NeuronError) as caught:
        core.remove_group("more")
    assert caught.value.code == "TP0902"
    core.remove_synapses([one.id for id in more.gives for one in core.synapses.out_of(id)])
    core.remove_neurons([*more.takes, *more.gives])
    assert torch.equal(core.run(X)[0], before)
    with pytest.raises(NeuronError, match="already a group"):
        core.add_neuron_group(1, name="more")


def test_a_split_neuron_does_the_same(core: Core) -> None:
    before = core.run(X)[0]
    sums, activations, outputs = (group(core, index) for index in range(3))
    for neuron in sums[:3]:
        made = core.split_neuron(neuron)
        torch.testing.assert_close(core.run(X)[0], before)
        assert core.neurons[made.takes[0]].bias == core.neurons[neuron].bias
    with pytest.raises(NeuronError, match="would change outputs"):
        core.split_neuron(outputs[0])
    with pytest.raises(NeuronError, match="cannot be split"):
        core.split_neuron(activations[0])


def test_growth_changes_no_output_bit(core: Core) -> None:
    before = core.run(X)[0]
    made = core.grow("0/linear", 5, seed=3)
    assert torch.equal(core.run(X)[0], before)
    assert len(made) == 5 and len(core.neurons) == 19 + 10
    assert all(len(core.synapses.of(id)) == 4 for id in made.takes)
    assert all([one.weight for one in core.synapses.out_of(id)] == [0, 0, 0] for id in made.gives)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_pruning_takes_the_smallest_weights(core: Core, fraction: float) -> None:
    sizes = torch.cat([weights(core)[0].reshape(-1), weights(core)[2].reshape(-1)]).abs().sort().values
    count = core.prune(fraction=fraction)
    assert count == round(fraction * len(sizes))
    w1, b1, w2, b2 = weights(core)
    left = torch.cat([w1.reshape(-1), w2.reshape(-1)]).abs()
    assert torch.equal(left[left > 0].sort().values, sizes[count:])
    assert len(core.synapses) == 57 - count
    torch.testing.assert_close(
        core.run(X)[0], nn.functional.linear(nn.functional.linear(X, w1, b1).relu(), w2, b2)
    )


def test_pruning_below_a_magnitude_in_one_layer(core: Core) -> None:
    w1 = weights(core)[0].clone()
    bound = float(w1.abs().reshape(-1).sort().values[7])
    assert core.prune(below=bound, layer="0") == 7, "the bound itself stays"
    assert torch.equal(weights(core)[0], w1 * (w1.abs() >= bound))
    assert core.prune(below=bound, layer="0") == 0


@pytest.mark.parametrize(
    "given",
    [{}, {"fraction": 0.1, "below": 0.1}, {"fraction": 1.5}, {"fraction": float("nan")}, {"below": -1.0},
     {"below": float("nan")}, {"fraction": 0.5, "layer": "nowhere"}],
)  # fmt: skip
def test_wrong_pruning_is_refused(core: Core, given: dict[str, float]) -> None:
    before = core.version
    with pytest.raises(NeuronError):
        core.prune(**given)  # type: ignore[arg-type]
    assert core.version is before


def test_changes_are_undone_one_by_one(core: Core) -> None:
    versions = [core.run(X)[0]]
    core.prune(fraction=0.2)
    versions.append(core.run(X)[0])
    core.remove_neurons([group(core, 0)[1]], cascade=True)
    versions.append(core.run(X)[0])
    core.set_weights([(group(core, 2)[0], 0)], 3.0)
    for expected in reversed(versions):
        core.undo()
        assert torch.equal(core.run(X)[0], expected)
    assert torch.equal(core.run(X)[0], mlp()(X).detach())
    with pytest.raises(NeuronError, match="no change to undo"):
        core.undo()


def test_a_change_for_another_version_is_refused(core: Core) -> None:
    from torchport.targets.marble.core.changes import Change

    seen = core.version
    core.prune(fraction=0.1)
    with pytest.raises(NeuronError, match="changed meanwhile"):
        core.change(Change("prune", {"fraction": 0.1, "below": None, "layer": None}), expected=seen)


def test_a_convolution_is_changed_synapse_by_synapse() -> None:
    builder = GraphBuilder()
    image = builder.input(1, 4, 4)
    conv = builder.conv2d_layer(image, torch.ones(1, 1, 3, 3), padding=1)
    core = builder.build(conv)
    corner = conv.gives[0]
    assert len(core.synapses.of(corner)) == 4, "a corner has no neighbours beyond the margin"
    assert len(core.synapses) == 4 * 4 + 8 * 6 + 4 * 9
    core.remove_synapses([core.synapses.of(corner)[0].id])
    found = core.run(torch.ones(1, 4, 4))[0]
    assert found[0, 0, 0, 0] == 3 and found[0, 0, 1, 1] == 9 and found[0, 0, 3, 3] == 4


def test_layers_of_several_rows_are_unrolled() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 2)).eval()
    x = torch.randn(1, 5, 3)
    core = convert_model(model, x)
    before = core.run(x)[0]
    core.split_neuron(core.groups()[1].first + 3)
    torch.testing.assert_close(core.run(x)[0], before)
    core.grow(core.groups()[1].name, 2)
    torch.testing.assert_close(core.run(x)[0], before)


def test_what_a_user_writes_to_is_never_the_graphs_own() -> None:
    class Given(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))
            self.cell = nn.GRU(3, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            _, hidden = self.cell(x)
            return self.weight, self.weight.view(1, 3), hidden

    model, x = Given().eval(), torch.randn(2, 3)
    core = convert_model(model, x)
    for _ in range(2):
        core.run(x)[0].zero_()
        core.run(x)[1].zero_()
    core.state_dict()["weight"].zero_()
    assert torch.equal(core.run(x)[0], torch.ones(3))
    first = core.step(x)[2]
    kept = first.clone()
    first.fill_(7)
    torch.testing.assert_close(core.step(x)[2], model.cell(x, kept)[1].detach())
