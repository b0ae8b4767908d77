"""A core computes the same by messages as by groups, also after changes, and shows what a neuron received."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torchport.marble import convert_model


def test_by_messages_after_every_kind_of_change() -> None:
    torch.manual_seed(0)
    model, x = (
        nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 3), nn.Softmax(-1)).eval(),
        torch.randn(2, 4),
    )
    core = convert_model(model, x)
    sums = core.groups()[1].ids

    def agree() -> None:
        torch.testing.assert_close(core.run_by_messages(x), core.run(x))

    agree()
    core.prune(fraction=0.2)
    agree()
    core.split_neuron(sums[0])
    agree()
    core.grow("0/linear", 2)
    agree()
    core.remove_neurons([sums[1]], cascade=True)
    agree()
    more = core.add_neuron_group(3, name="more", activation="tanh", bias=[1.0, 2.0, 3.0])
    core.connect(sums[2:5], more, torch.randn(3, 3))
    core.connect(more, next(group for group in core.groups() if group.name == "2/linear").ids[:2], 0.5)
    agree()


def test_messages_are_shown_and_add_up() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(3, 2).eval(), torch.randn(1, 3)
    core = convert_model(model, x)
    first, second = core.groups()[1].ids
    core.add_synapses(0, second, 10.0)
    shown: list[Tensor] = []
    core.run_by_messages(x, observe=lambda group, neurons, messages: shown.append(messages.reshape(-1)))
    own = torch.cat([core.received(neuron, x).message for neuron in (first, second)])
    assert sorted(torch.cat(shown).tolist()) == sorted(own.tolist())
    got = core.received(second, x)
    assert got.synapses.source.tolist() == [0, 1, 2, 0]
    torch.testing.assert_close(got.value, x[0][[0, 1, 2, 0]])
    torch.testing.assert_close(got.message.sum() + got.bias, got.result)
    torch.testing.assert_close(got.result, core.run(x)[0][0, 1])
