"""Graphs that are built by hand compute what torch computes."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from torchport.errors import NeuronError
from torchport.targets.marble.core.builder import GraphBuilder


def test_a_dense_layer_is_what_torch_computes() -> None:
    weight, bias = torch.randn(3, 4), torch.randn(3)
    builder = GraphBuilder()
    x = builder.input(4)
    core = builder.build(builder.linear_layer(x, weight, bias, activation="relu"))
    value = torch.randn(4)
    torch.testing.assert_close(
        core.run(value)[0], functional.linear(value, weight, bias).relu(), rtol=0, atol=0
    )
    assert len(core.neurons) == 4 + 3 + 3
    assert len(core.synapses) == 4 * 3 + 3 + 3, "weights, biases, and one to each activation"


def test_weights_may_be_plain_lists() -> None:
    builder = GraphBuilder()
    x = builder.input(2)
    core = builder.build(builder.linear_layer(x, [[1, 2], [3, 4]], [10, 20]))
    assert core.run(torch.tensor([1.0, -1.0]))[0].tolist() == [9.0, 19.0]


@pytest.mark.parametrize("stride", [1, (2, 1)])
@pytest.mark.parametrize("padding", [0, (1, 2)])
@pytest.mark.parametrize("dilation", [1, (1, 2)])
@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_is_what_torch_computes(stride: int, padding: int, dilation: int, groups: int) -> None:
    weight, bias = torch.randn(6, 4 // groups, 3, 2), torch.randn(6)
    builder = GraphBuilder()
    image = builder.input(4, 8, 9)
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    core = builder.build(builder.conv2d_layer(image, weight, bias, **how))  # type: ignore[arg-type]
    value = torch.randn(4, 8, 9)
    expected = functional.conv2d(value[None], weight, bias, stride, padding, dilation, groups)
    torch.testing.assert_close(core.run(value)[0], expected, rtol=0, atol=0)


def test_synapses_one_by_one_make_a_layer() -> None:
    weight, bias = torch.randn(3, 4), torch.randn(3)
    builder = GraphBuilder()
    x = builder.input(4)
    hidden = builder.add_neuron_group(3, activation="tanh", bias=bias)
    builder.connect(x, hidden, weight)
    core = builder.build(hidden)
    value = torch.randn(4)
    torch.testing.assert_close(core.run(value)[0], functional.linear(value, weight, bias).tanh())
    assert [synapse.weight for synapse in core.synapses.of(hidden.takes[1])] == weight[1].tolist()
    assert [synapse.source for synapse in core.synapses.of(hidden.takes[1])] == list(x.gives)


def test_synapses_may_skip_layers_and_meet() -> None:
    builder = GraphBuilder()
    x = builder.input(3)
    hidden = builder.linear_layer(x, torch.eye(3) * 2)
    end = builder.add_neuron_group(1, bias=0.5)
    builder.add_synapses(hidden, end.takes[0], [1.0, 10.0, 100.0])
    builder.add_synapses(x.gives[2], end.takes[0], 1000.0)
    core = builder.build(end)
    assert core.run(torch.tensor([1.0, 2.0, 3.0]))[0].tolist() == [0.5 + 2 + 40 + 600 + 3000]


def test_a_memory_gives_the_value_of_the_step_before() -> None:
    builder = GraphBuilder()
    x = builder.input(1)
    total = builder.add_neuron_group(1)
    builder.add_synapses(x, total, 1.0)
    last = builder.add_memory(total)
    builder.add_synapses(last, total, 0.5)
    core = builder.build(total)
    given = torch.ones(1)
    assert [core.step(given)[0].item() for _ in range(3)] == [1.0, 1.5, 1.75]
    assert core.run(given)[0].item() == 1.0, "a run begins anew"
    core.reset()
    assert core.step(given)[0].item() == 1.0


def test_a_cycle_without_memory_is_refused() -> None:
    builder = GraphBuilder()
    x = builder.input(1)
    one, two = builder.add_neuron_group(1), builder.add_neuron_group(1)
    builder.add_synapses(x, one, 1.0)
    builder.add_synapses(one, two, 1.0)
    with pytest.raises(NeuronError, match="cycle") as caught:
        builder.add_synapses(two, one, 1.0)
    assert caught.value.code == "TP0903"
    assert builder.build(two).run(torch.ones(1))[0].item() == 1.0, "the graph is as it was"


@pytest.mark.parametrize(
    ("size", "bias"), [(0, 0.0), (-1, 0.0), (True, 0.0), (2, [1.0]), (2, [1.0, 2.0, 3.0]), (2.5, 0.0)]
)
def test_wrong_groups_are_refused(size: int, bias: object) -> None:
    with pytest.raises(NeuronError) as caught:
        GraphBuilder().add_neuron_group(size, bias=bias)
    assert caught.value.code == "TP0904"


def test_wrong_layers_are_refused() -> None:
    builder = GraphBuilder()
    x = builder.input(4)
    for weight, bias in [(torch.ones(2, 3), None), (torch.ones(2), None), (torch.ones(2, 4), torch.ones(3))]:
        with pytest.raises(NeuronError):
            builder.linear_layer(x, weight, bias)
    with pytest.raises(NeuronError):
        builder.conv2d_layer(x, torch.ones(2, 4, 3, 3))
    with pytest.raises(NeuronError):
        builder.build()


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_a_weight_is_a_number(weight: float) -> None:
    builder = GraphBuilder()
    x, y = builder.input(1), builder.add_neuron_group(1)
    with pytest.raises(NeuronError, match="NaN or infinite"):
        builder.add_synapses(x, y, weight)


def test_unknown_neurons_are_refused() -> None:
    builder = GraphBuilder()
    x, y = builder.input(1), builder.add_neuron_group(1)
    for source, target in [(99, y), (x, 99), (-1, y)]:
        with pytest.raises(NeuronError) as caught:
            builder.add_synapses(source, target, 1.0)
        assert caught.value.code == "TP0901"
    with pytest.raises(NeuronError, match="take no more synapses"):
        builder.add_synapses(y, x.gives[0], 1.0)


def test_inputs_that_do_not_fit_are_refused() -> None:
    builder = GraphBuilder()
    core = builder.build(builder.linear_layer(builder.input(4, name="x"), torch.ones(2, 4)))
    for inputs in [(), (torch.ones(4), torch.ones(4)), (torch.ones(3),), (torch.ones(4).double(),)]:
        with pytest.raises(NeuronError) as caught:
            core.run(*inputs)
        assert caught.value.code == "TP0905"
