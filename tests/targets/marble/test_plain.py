"""A plain graph that exists is consistent, and biases become bias neurons and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from torchport.errors import GraphFileError
from torchport.targets.marble.exchange.labels import Labels
from torchport.targets.marble.exchange.layout import with_bias_neurons, without_bias_neurons
from torchport.targets.marble.exchange.plain import Neurons, Plain, Synapses


def dense(*layers: nn.Linear) -> Plain:
    """Linear layers one after another, with a relu behind each but the last, whose biases are those of the neurons."""
    values, groups, activations = [0.5] * layers[0].in_features, ["input"] * layers[0].in_features, []
    activations += [""] * layers[0].in_features
    biases, sources, targets, weights = [torch.zeros(layers[0].in_features)], [], [], []
    before = torch.arange(layers[0].in_features)
    for number, layer in enumerate(layers):
        outputs = torch.arange(layer.out_features) + len(values)
        values += [0.0] * layer.out_features
        groups += [f"fc{number}"] * layer.out_features
        activations += ["relu" if number + 1 < len(layers) else ""] * layer.out_features
        biases.append(layer.bias.detach() if layer.bias is not None else torch.zeros(layer.out_features))
        sources.append(before.repeat(layer.out_features))
        targets.append(outputs.repeat_interleave(len(before)))
        weights.append(layer.weight.detach().flatten())
        before = outputs
    neurons = Neurons.of(values, group=groups, activation=activations, bias=torch.cat(biases))
    return Plain(neurons, Synapses.of(torch.cat(sources), torch.cat(targets), torch.cat(weights)))


def test_arrays_of_numpy_and_torch_of_any_float_become_float64() -> None:
    weight = torch.tensor([0.1, float("nan")], dtype=torch.bfloat16, requires_grad=True)
    plain = Plain(Neurons.of(np.zeros(2, np.float16)), Synapses.of(torch.tensor([0, 1]), [1, 0], weight))
    assert plain.synapses.weight.dtype == np.float64
    assert torch.equal(torch.tensor(plain.synapses.weight).bfloat16()[:1], weight[:1])
    assert np.isnan(plain.synapses.weight[1])
    assert list(plain.neurons.ids) == [0, 1]


def test_one_value_for_all_takes_no_memory() -> None:
    synapses = Synapses.of(np.zeros(1000, int), np.zeros(1000, int), 0.5)
    assert (
        synapses.weight.strides == synapses.potential.strides == synapses.synapse_type.codes.strides == (0,)
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"source": [0, 2]}, "source of a synapse is neuron 2, and there are 2"),
        ({"target": [-1, 0]}, "target of a synapse is neuron -1"),
        ({"target": [0]}, "of different lengths: source 2, target 1"),
        ({"source": [0.0, 1.0]}, "synapses.source is of dtype float64"),
        ({"weight": ["a", "b"]}, "synapses.weight is of dtype"),
        ({"weight": [1j, 1j]}, "synapses.weight is of dtype complex128"),
        ({"weight": np.array([2**53 + 1, 0])}, "no float64 holds"),
        ({"weight": np.zeros((2, 1))}, "synapses.weight has 2 axes"),
        ({"synapse_type": ["a", "\ud800"]}, "surrogate"),
        ({"synapse_type": ["a" * 5000, "b"]}, "a name has 5,000 characters"),
    ],
)
def test_columns_that_cannot_be_right_are_refused(columns: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"source": [0, 1], "target": [1, 0], "weight": [1.0, 2.0], **columns}
    with pytest.raises(GraphFileError, match=f"TP036[26]: .*{message}"):
        Plain(Neurons.of([0.0, 0.0]), Synapses.of(**given))


@pytest.mark.parametrize(
    ("metadata", "place"),
    [
        ({"a": {1: 2}}, "a key is an integer.*metadata.a"),
        ({"a": [0, object()]}, "not a plain value.*metadata.a\\[1\\]"),
        ({"a": 2**70}, "more than 64 bits.*metadata.a"),
        ({"a": np.zeros(1)}, "of the class ndarray.*metadata.a"),
    ],
)
def test_metadata_is_plain_values(metadata: dict[str, Any], place: str) -> None:
    with pytest.raises(GraphFileError, match=place):
        Plain(Neurons.of([0.0]), Synapses.of(np.zeros(0, int), np.zeros(0, int), []), metadata)


def test_metadata_that_holds_itself_is_refused() -> None:
    metadata: dict[str, Any] = {}
    metadata["again"] = [metadata, metadata]
    with pytest.raises(GraphFileError, match="TP0366.*nested"):
        Plain(Neurons.of([0.0]), Synapses.of(np.zeros(0, int), np.zeros(0, int), []), metadata)


def test_graphs_are_compared_by_values_and_not_by_the_numbers_of_names() -> None:
    assert Labels.of(["a", "b", "a"]).equals(Labels(("b", "a"), np.array([1, 0, 1])))
    assert not Labels.of(["a", "b", "a"]).equals(Labels.of(["a", "b", "b"]))
    one = Plain(Neurons.of([float("nan")]), Synapses.of([0], [0], [float("inf")]))
    assert one.equals(Plain(Neurons.of([float("nan")]), Synapses.of([0], [0], [float("inf")])))
    assert not one.equals(Plain(Neurons.of([0.0]), Synapses.of([0], [0], [float("inf")])))


def test_bias_neurons_come_after_the_outputs_of_their_layer() -> None:
    """Inputs first; for each Linear its outputs, then a bias neuron; weights row by row, those of the bias last."""
    first, second = nn.Linear(3, 2), nn.Linear(2, 2)
    plain = with_bias_neurons(dense(first, second))
    assert plain.neurons.group.tolist() == ["input"] * 3 + ["fc0"] * 3 + ["fc1"] * 3
    assert np.flatnonzero(plain.neurons.neuron_type.rows_of("bias")).tolist() == [5, 8]
    assert plain.neurons.value[[5, 8]].tolist() == [1.0, 1.0]
    assert not plain.neurons.bias.any()
    synapses = plain.synapses
    assert synapses.source.tolist() == [0, 1, 2, 0, 1, 2, 5, 5, 3, 4, 3, 4, 8, 8]
    assert synapses.target.tolist() == [3, 3, 3, 4, 4, 4, 3, 4, 6, 6, 7, 7, 6, 7]
    parameters = [first.weight, first.bias, second.weight, second.bias]
    expected = torch.cat([parameter.detach().flatten() for parameter in parameters])
    assert torch.equal(torch.from_numpy(synapses.weight).float(), expected)


def test_bias_neurons_can_be_undone() -> None:
    plain = dense(nn.Linear(4, 3), nn.Linear(3, 3, bias=False), nn.Linear(3, 2))
    assert without_bias_neurons(with_bias_neurons(plain)).equals(plain)


def test_a_graph_without_biases_stays_as_it_is() -> None:
    plain = dense(nn.Linear(2, 2, bias=False))
    assert with_bias_neurons(plain).equals(plain)
    assert without_bias_neurons(plain).equals(plain)


@pytest.mark.parametrize(
    ("neurons", "synapses", "message"),
    [
        (
            {"value": [1.0, 0.0], "neuron_type": ["bias", "standard"]},
            ([0, 0], [1, 1], [1.0, 2.0]),
            "more than one bias",
        ),
        (
            {"value": [1.0, 0.0], "neuron_type": ["bias", "standard"]},
            ([1], [0], [1.0]),
            "is reached by a synapse",
        ),
        (
            {"value": [2.0, 0.0], "neuron_type": ["bias", "standard"]},
            ([0], [1], [1.0]),
            "another value than 1",
        ),
        (
            {"value": [1.0, 0.0], "neuron_type": ["bias", "a"], "bias": [0, 1]},
            ([0], [1], [1.0]),
            "more than one",
        ),
        ({"value": [1.0, 0.0], "neuron_type": ["bias", "a"]}, ([0], [1], [1.0], 0.5), "of its own kind"),
    ],
)
def test_a_bias_neuron_that_is_more_than_a_bias_is_kept(neurons: Any, synapses: Any, message: str) -> None:
    with pytest.raises(GraphFileError, match=message):
        without_bias_neurons(Plain(Neurons.of(**neurons), Synapses.of(*synapses)))
