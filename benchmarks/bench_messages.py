"""How many synapses a second a neuron graph computes by messages, with one thread.

    python -m benchmarks.bench_messages
    python -m benchmarks.bench_messages --rounds 30 --only dense

Each subject is computed with an observer, who is shown every message, and without one, beside the fastest way that
torch has for it: a product of a matrix and a vector, a product with a sparse matrix, a convolution, the encoder by
groups. The fastest of some rounds counts, in which all are measured in turns. It fails if dense or listed synapses are
slower than 100 million a second when observed, or 600 million when not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from torchport.capture.attempt import attempt
from torchport.targets.marble import messages, works
from torchport.targets.marble.convert import convert
from torchport.targets.marble.counts import Counts, synapses
from torchport.targets.marble.evaluate import by_groups, by_messages
from torchport.targets.marble.fans import form_of, request
from torchport.targets.marble.groups import Group, Kind, Port

OBSERVED, HIDDEN = 100e6, 600e6
"""Synapses a second that are promised."""


@dataclass(frozen=True)
class Subject:
    """Ways to compute the same, and how many synapses that are."""

    name: str
    count: int
    ways: dict[str, Callable[[], object]]
    """`torch`, `hidden` and `observed`."""
    is_bound: bool


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="", help="subjects with this in their name")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(
        "| one thread, M synapses a second | synapses | torch | by messages | observed |\n|---|---|---|---|---|"
    )
    missed = []
    for make in (dense, listed_evenly, listed_widely, convolution, encoder):
        if options.only not in make.__name__:
            continue
        with torch.no_grad():
            subject = make()
            seconds = measured(subject, options.rounds)
        rates = {way: subject.count / taken for way, taken in seconds.items()}
        cells = " | ".join(f"{rates[way] / 1e6:,.0f}" for way in ("torch", "hidden", "observed"))
        print(f"| {subject.name} | {subject.count:,} | {cells} |", flush=True)
        if subject.is_bound and (rates["observed"] < OBSERVED or rates["hidden"] < HIDDEN):
            missed.append(subject.name)
    if missed:
        sys.exit(f"slower than {OBSERVED / 1e6:.0f} or {HIDDEN / 1e6:.0f} M/s: {', '.join(missed)}")


def measured(subject: Subject, rounds: int) -> dict[str, float]:
    """The fewest seconds of each way."""
    best = dict.fromkeys(subject.ways, float("inf"))
    for _ in range(rounds + 1):
        for way, compute in subject.ways.items():
            start = time.perf_counter()
            compute()
            best[way] = min(best[way], time.perf_counter() - start)
    return best


def seen(group: str, neurons: range, sent: Tensor) -> None:
    """An observer who does nothing."""


def of_group(
    name: str,
    work: str,
    value: Tensor,
    arrays: dict[str, Tensor],
    by_torch: Callable[[], Tensor],
    options: dict[str, object] | None = None,
    *,
    is_bound: bool,
) -> Subject:
    """One group, whose arrays are called what they are for."""
    own = {purpose: purpose for purpose in arrays}
    result = by_torch()
    group = Group(
        name, Kind.WEIGHTED_SUM, work, (Port("x"),), (form_of(result),), value.numel(), "", options or {}, own
    )
    ways: dict[str, Callable[[], object]] = {
        "torch": by_torch,
        "hidden": lambda: messages.compute(group, [value], arrays, {}),
        "observed": lambda: messages.compute(group, [value], arrays, {}, seen),
    }
    torch.testing.assert_close(
        messages.compute(group, [value], arrays, {}, seen)[0], result, rtol=1e-3, atol=1e-3
    )
    count = synapses(request(group, [form_of(value)], group.results, arrays, {}))
    return Subject(name, count, ways, is_bound)


def dense() -> Subject:
    weight, value = torch.randn(2048, 2048), torch.randn(2048)
    return of_group(
        "dense, 2048 × 2048",
        "dense",
        value,
        {"weight": weight},
        lambda: torch.mv(weight, value),
        is_bound=True,
    )


def listed_evenly() -> Subject:
    return listed("a list, 2048 neurons", 2048)


def listed_widely() -> Subject:
    return listed("a list, 65536 neurons", 65536)


def listed(name: str, neurons: int) -> Subject:
    """4 million synapses that come from anywhere among as many values as there are neurons."""
    each = (1 << 22) // neurons
    source = torch.randint(neurons, (neurons, each)).sort().values.flatten().int()
    row = torch.arange(0, neurons * each + 1, each).int()
    arrays = {"row": row, "source": source, "weight": torch.randn(neurons * each)}
    value = torch.randn(neurons)
    return of_group(
        name, "sparse", value, arrays, lambda: works.csr_product(*arrays.values(), value), is_bound=True
    )


def convolution() -> Subject:
    weight, value = torch.randn(64, 64, 3, 3), torch.randn(1, 64, 56, 56)
    how = {"stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "groups": 1}
    options = {**how, "transposed": False, "output_padding": [0, 0]}
    return of_group(
        "convolution, 64 → 64, 3 × 3, 56 × 56",
        "convolution",
        value,
        {"weight": weight},
        lambda: torch.conv2d(value, weight, padding=1),
        options,
        is_bound=False,
    )


def encoder() -> Subject:
    """As large as MiniLM: 6 layers of 384 with 12 heads, on 128 tokens."""
    layer = nn.TransformerEncoderLayer(384, 12, 1536, activation="gelu", batch_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
    value = torch.randn(1, 128, 384)
    exported = attempt(model, (value,), {}, name="encoder", wish={}, decompose=None)
    made = convert(exported.graph, {exported.graph.root.inputs[0].name: tuple(value.shape)})
    graph, arrays = made.graph, {**exported.weights, **made.made}
    ways: dict[str, Callable[[], object]] = {
        "torch": lambda: by_groups(graph, arrays, [value]),
        "hidden": lambda: by_messages(graph, arrays, [value]),
        "observed": lambda: by_messages(graph, arrays, [value], observe=seen),
    }
    return Subject("encoder, 6 × 384, 128 tokens", Counts(graph, arrays).total(), ways, False)


if __name__ == "__main__":
    main()
