"""A transformer as a graph of neurons, step by step, and what to do when something goes wrong.

python examples/marble/transformer.py
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from torchport import marble
from torchport.errors import TorchportError

WIDTH, HEADS, WORDS = 16, 2, 30


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(WORDS, WIDTH, padding_idx=0)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.encoder(self.tokens(ids)).mean(1))


def say(step: str) -> None:
    print(f"\n{step}")


def main() -> None:
    torch.manual_seed(0)
    model, ids = Classifier().eval(), torch.randint(1, WORDS, (2, 7))

    say("1. A transformer without places cannot tell the order of words: its graph is given an encoding.")
    places = marble.PositionalEncoding(kind="sinusoidal")
    placed = marble.with_positions(model, places, (ids,))
    turned = ids.flip(1)
    torch.testing.assert_close(model(ids), model(turned))
    print(
        f"   turned round, the output changes by {float((placed(ids) - placed(turned)).detach().abs().max()):.3f}"
    )

    say("2. Convert. The inputs say which shapes the neurons are for.")
    core = marble.convert_model(model, ids, config={"positional_encoding": {"kind": "sinusoidal"}})
    counted = marble.summary(core)
    print(
        f"   {counted.neurons:,} neurons, {counted.synapses:,} synapses, {counted.weights_stored:,} numbers stored"
    )

    say("3. Validate against the same model in PyTorch: every layer, then the outputs.")
    verdict = marble.validate(core, placed, ids)
    print(f"   {'pass' if verdict.passed else 'fail'}: {len(verdict.layers)} layers by {verdict.rule}")
    assert verdict.passed

    say("4. Look at it: the groups of one attention, from what it computes to how many neurons do it.")
    attention = "encoder.layers.0.self_attn"
    for group in core.groups():
        if group.layer == attention and group.kind.has_neurons:
            print(f"   {group.kind.value:<13} {group.work:<28} {list(group.results[0].shape)}")

    say("5. What can go wrong, and what to do.")
    for what, mistake in troubles(core, model, ids).items():
        try:
            mistake()
        except TorchportError as error:
            print(f"   {what}\n      {error.code}: {error.message}\n      next: {error.fix}")
        else:
            raise AssertionError(f"{what}: nothing was raised")

    say("6. A graph that is wrong is found, and the layer is named.")
    broken = core.version.arrays["encoder.layers.1.linear1.weight"].clone()
    broken[0] *= 1.001
    wrong = marble.Core(core.graph, {**core.version.arrays, "encoder.layers.1.linear1.weight": broken})
    verdict = marble.validate(wrong, placed, ids)
    print(f"   {'pass' if verdict.passed else 'fail'}: {', '.join(verdict.differing)}")
    assert verdict.differing == ("encoder.layers.1.linear1",)


def troubles(core: marble.Core, model: nn.Module, ids: Tensor) -> dict[str, Callable[[], object]]:
    return {
        "No example inputs:": lambda: marble.convert_model(model, None),
        "Inputs of another shape than the graph is for:": lambda: core.run(ids[:, :5]),
        "A setting with a typo:": lambda: marble.convert_model(
            model, ids, config={"positional_encodings": {}}
        ),
        "An encoding with too few places:": lambda: marble.convert_model(
            model, ids, config={"positional_encoding": {"kind": "learned", "max_length": 4}}
        ),
        "A neuron that is not there:": lambda: core.neurons[10**9],
    }


if __name__ == "__main__":
    main()
