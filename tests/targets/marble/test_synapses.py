"""The synapses of single neurons in whole graphs: from whom, to whom, and what came along them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tests.targets.marble.graphs import Converted, converted
from torchport.errors import NeuronError
from torchport.targets.marble.arrivals import NOBODY, Arrivals
from torchport.targets.marble.evaluate import by_messages
from torchport.targets.marble.groups import Assembly, Form, Group, Kind, NeuronGraph, Port
from torchport.targets.marble.synapses import received, synapses_from, synapses_of

pytestmark = pytest.mark.slow


class Small(nn.Module):
    """A window, a view, a slice, a concatenation, a product, a choice, and padding that has a value."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 3, padding=1)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Tensor, flags: Tensor) -> Tensor:
        y = self.conv(x)
        joined = torch.cat([y[:, :, 1:], x.flip(1)[:, :1, :4]], 1).flatten(1)[:, 2:14]
        z = self.head(joined) * joined[:, ::3]
        z = torch.where(flags, z, z.roll(1, 1))
        return nn.functional.pad(z, (1, 0), value=3.0).cumsum(1)


@pytest.fixture(scope="module")
def small() -> Converted:
    torch.manual_seed(0)
    return converted(
        Small().double(), torch.randn(1, 2, 5).double(), torch.tensor([True, False, True, False])
    )


def values_of(made: Converted) -> dict[int, float]:
    """The value of every neuron in a run."""
    return {
        neuron: float(received(made.graph, made.arrays, made.inputs, neuron).result)
        for neuron in range(made.graph.neurons)
    }


def test_what_arrives_through_wiring_is_whose_value_it_is(small: Converted) -> None:
    arrivals, values = Arrivals(small.graph), values_of(small)
    for group in small.graph.groups():
        ids = arrivals.at(group.name)
        assert [tuple(one.shape) for one in ids] == [form.shape for form in arrivals.forms(group.name)]
    for group in small.graph.groups():
        for neuron in group.ids:
            got = received(small.graph, small.arrays, small.inputs, neuron)
            for source, value in zip(got.synapses.source.tolist(), got.value.tolist(), strict=True):
                assert value == (3.0 if source == NOBODY else values[source])


def test_weighted_sums_are_made_of_their_messages(small: Converted) -> None:
    sums = [group for group in small.graph.groups() if group.kind is Kind.WEIGHTED_SUM]
    assert len(sums) == 3
    for group in sums:
        for neuron in group.ids:
            got = received(small.graph, small.arrays, small.inputs, neuron)
            torch.testing.assert_close(got.message, got.value * got.synapses.weight)
            total = got.message.sum() + (0 if got.bias is None else got.bias)
            torch.testing.assert_close(total, got.result)


def test_both_ends_of_a_synapse_know_of_it(small: Converted) -> None:
    graph, arrays = small.graph, small.arrays
    arriving, leaving = set(), set()
    for neuron in range(graph.neurons):
        into, out = synapses_of(graph, arrays, neuron), synapses_from(graph, arrays, neuron)
        arriving |= {(source, neuron, weight) for source, weight in _pairs(into.source, into.weight)}
        leaving |= {(neuron, target, weight) for target, weight in _pairs(out.target, out.weight)}
    assert arriving == leaving
    assert len(arriving) > 100


def _pairs(ids: Tensor, weights: Tensor) -> list[tuple[int, float]]:
    return list(zip(ids.tolist(), weights.tolist(), strict=True))


def test_padding_is_nobody(small: Converted) -> None:
    name = next(group.name for group in small.graph.groups() if "cumsum" in group.work)
    (ids,) = Arrivals(small.graph).at(name)
    assert ids[0, 0] == NOBODY
    assert (ids[0, 1:] > 0).all()


def test_a_neuron_that_is_not_there_is_refused(small: Converted) -> None:
    for neuron in (-1, small.graph.neurons):
        with pytest.raises(NeuronError, match=f"no neuron {neuron}") as caught:
            synapses_of(small.graph, small.arrays, neuron)
        assert caught.value.code == "TP0901"


def test_other_sizes_than_the_examples_are_refused(small: Converted) -> None:
    longer = [torch.randn(1, 2, 6).double(), small.inputs[1]]
    with pytest.raises(NeuronError, match="shape") as caught:
        received(small.graph, small.arrays, longer, 20)
    assert caught.value.code == "TP0905"


def test_a_graph_built_by_hand_of_listed_synapses() -> None:
    """Two inputs, three neurons, each with a list of its own."""
    inputs = (
        Group("a", Kind.INPUT, "given", (), (Form((2,), "float32"),), 0),
        Group("b", Kind.INPUT, "given", (), (Form((1, 2), "float32"),), 2),
    )
    arrays = {
        "row": torch.tensor([0, 2, 2, 3], dtype=torch.int32),
        "source": torch.tensor([0, 3, 2], dtype=torch.int32),
        "weight": torch.tensor([0.5, 2.0, -1.0]),
    }
    own = Group(
        name="own",
        kind=Kind.WEIGHTED_SUM,
        work="sparse",
        inputs=(Port("a"), Port("b")),
        results=(Form((3,), "float32"),),
        first=4,
        weights={name: name for name in arrays},
    )
    step = Assembly("own!", "torchport.sparse", (), {}, (own,), (Port("own"),))
    graph = NeuronGraph("hand", inputs, (step,), (Port("own!"),))
    into = synapses_of(graph, arrays, 4)
    assert _pairs(into.source, into.weight) == [(0, 0.5), (3, 2.0)]
    out = synapses_from(graph, arrays, 2)
    assert _pairs(out.target, out.weight) == [(6, -1.0)]
    assert len(synapses_of(graph, arrays, 5).source) == 0
    values = [torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 4.0]])]
    assert by_messages(graph, arrays, values)[0].tolist() == [8.5, 0, -3]
