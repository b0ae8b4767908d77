"""Whole models as neuron graphs: by groups, by messages and by messages that are observed, they compute the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.zoo import Cnn, Mlp, train_statistics
from tests.targets.marble.graphs import Converted, converted
from torchport.targets.marble.arrivals import Arrivals
from torchport.targets.marble.counts import Counts
from torchport.targets.marble.evaluate import by_groups, by_messages
from torchport.targets.marble.fans import fan
from torchport.targets.marble.groups import Kind
from torchport.targets.marble.synapses import synapses_of

pytestmark = pytest.mark.slow
Subject = tuple[nn.Module, tuple[Tensor, ...]]
SMALL = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}


def transformer(name: str, config: str, **options: Any) -> Subject:
    import transformers

    settings = getattr(transformers, f"{config}Config")(**{**SMALL, **options})
    settings.use_cache = False
    return getattr(transformers, name)(settings), (torch.randint(3, 30, (1, 5)),)


def vision(name: str) -> Subject:
    import torchvision

    model = getattr(torchvision.models, name)(weights=None)
    train_statistics(model, lambda: (torch.randn(4, 3, 32, 32) * 2 + 1,))
    return model, (torch.randn(1, 3, 32, 32),)


MODELS: dict[str, Callable[[], Subject]] = {
    "mlp": lambda: (Mlp(), (torch.randn(4, 32),)),
    "cnn": lambda: (Cnn(), (torch.randn(1, 3, 12, 12),)),
    "encoder layer": lambda: (
        nn.TransformerEncoderLayer(16, 4, 24, batch_first=True),
        (torch.randn(2, 5, 16),),
    ),
    "decoder layer": lambda: (
        nn.TransformerDecoderLayer(16, 4, 24, batch_first=True),
        (torch.randn(2, 5, 16), torch.randn(2, 6, 16)),
    ),
    "lstm": lambda: (nn.LSTM(6, 5, num_layers=2, bidirectional=True), (torch.randn(4, 2, 6),)),
    "resnet18": lambda: vision("resnet18"),
    "mobilenet_v3_small": lambda: vision("mobilenet_v3_small"),
    "bert": lambda: transformer("BertModel", "Bert"),
    "gpt2": lambda: transformer("GPT2LMHeadModel", "GPT2", n_positions=16, bos_token_id=1, eos_token_id=2),
    "llama": lambda: transformer("LlamaForCausalLM", "Llama", num_key_value_heads=1),
}


def made(name: str) -> Converted:
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    given = (value.double() if value.is_floating_point() else value for value in inputs)
    return converted(model.double(), *given)


@pytest.mark.parametrize("name", MODELS)
def test_by_groups_and_by_messages_agree_with_the_model(name: str) -> None:
    subject = made(name)
    graph, arrays, inputs = subject.graph, subject.arrays, subject.inputs
    shown: list[int] = []
    by = [
        by_groups(graph, arrays, inputs),
        by_groups(graph, arrays, inputs, opened=None),
        by_messages(graph, arrays, inputs),
        by_messages(graph, arrays, inputs, observe=lambda group, ids, sent: shown.append(sent.numel())),
    ]
    for outputs in by:
        assert_same(outputs, subject.expected)
    assert sum(shown) > 0
    assert Counts(graph, arrays).total() > graph.neurons / 2


def assert_same(outputs: Sequence[Tensor], expected: Sequence[Tensor]) -> None:
    assert len(outputs) == len(expected)
    for own, other in zip(outputs, expected, strict=True):
        largest = float(other.abs().max())
        assert largest > 1e-6
        torch.testing.assert_close(own, other, rtol=1e-9, atol=1e-10 * largest)


def test_every_group_of_a_transformer_can_be_walked_neuron_by_neuron() -> None:
    subject = made("encoder layer")
    arrivals = Arrivals(subject.graph)
    count = Counts(subject.graph, subject.arrays, arrivals)
    for group in subject.graph.groups():
        if group.neurons and group.kind not in (Kind.INPUT, Kind.CONSTANT):
            some = list(group.ids)[:: max(1, group.neurons // 5)]
            for neuron in some:
                into = synapses_of(subject.graph, subject.arrays, neuron, arrivals)
                assert len(into.source) > 0
                assert (into.source < group.first).all()
                assert (into.source >= 0).all()
            each = fan(arrivals.request(group.name, subject.arrays), range(1)).count
            assert count.of(group.name) == each * group.neurons
